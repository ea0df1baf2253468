"""Other tools: what they call a schema, a measurement, an event and a deployment, in and out.

Each file speaks to one tool, which is imported only when its function is called. Everything here is public: schemas,
noisy numbers and costs; nothing reads private rows.
"""

from hush.interop.dp_events import dp_accounting_event
from hush.interop.dpsynth_domain import dpsynth_domain
from hush.interop.mbi_objects import from_mbi_domain, from_mbi_measurements, mbi_dataset, mbi_domain, mbi_measurements
from hush.interop.opendp_tables import from_opendp_table
from hush.interop.registry_entry import registry_entry
from hush.interop.sdv_metadata import sdv_metadata

__all__ = [
    "dp_accounting_event",
    "dpsynth_domain",
    "from_mbi_domain",
    "from_mbi_measurements",
    "from_opendp_table",
    "mbi_dataset",
    "mbi_domain",
    "mbi_measurements",
    "registry_entry",
    "sdv_metadata",
]
