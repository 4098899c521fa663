"""Reports of a run: a self-contained HTML page, static figures, a CSV table and a summary."""

from bricard.report.charts import Panel as Panel
from bricard.report.charts import chart_figure as chart_figure
from bricard.report.charts import chart_panels as chart_panels
from bricard.report.page import write_report as write_report
from bricard.report.paths import path_figure as path_figure
from bricard.report.singular import singular_positions as singular_positions
from bricard.report.spectra import spectrum_figure as spectrum_figure
from bricard.report.summary import Summary as Summary
from bricard.report.summary import summarize as summarize
from bricard.report.table import write_table as write_table
