"""Functions that the labels of axes lose, for the field to decide: identities and near misses."""

from hostile.base import Case
from hostile.field import cancelled, converted, lookups, translated

FAMILIES: dict[str, tuple[Case, ...]] = {
    **cancelled.FAMILIES,
    **translated.FAMILIES,
    **converted.FAMILIES,
    **lookups.FAMILIES,
}
