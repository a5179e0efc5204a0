"""SQL over the Iceberg tables and the write-ahead log together: cut, prune, plan, answer."""

from icegate_query.answers import Answer
from icegate_query.cut import ReadMode
from icegate_query.server import create_app
from icegate_query.service import QueryOptions, QueryService

__all__ = ["Answer", "QueryOptions", "QueryService", "ReadMode", "create_app"]
