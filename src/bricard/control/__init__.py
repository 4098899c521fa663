"""Which forces make it move as I want: outputs, references and the laws that follow them."""

from bricard.simulate.controller import ConstantInput as ConstantInput
from bricard.simulate.controller import Controller as Controller
from bricard.simulate.controller import Feedback as Feedback
from bricard.simulate.controller import InputOverTime as InputOverTime
from bricard.simulate.sampling import Sampled as Sampled
