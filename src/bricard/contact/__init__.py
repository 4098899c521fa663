"""Contacts: gaps that cannot become negative, friction, impacts, and the events of a run with them."""

from bricard.contact.event_loop import ContactRunner as ContactRunner
from bricard.contact.gap import Contact as Contact
from bricard.contact.gap import joint_limits as joint_limits
from bricard.contact.gap import point_contact as point_contact
from bricard.contact.impacts import Impact as Impact
from bricard.contact.impacts import impact as impact
from bricard.contact.record import ContactEvent as ContactEvent
