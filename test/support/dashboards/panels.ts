import type { PanelBuilder as CandlesBuilder } from '@grafana/grafana-foundation-sdk/candlestick';
import type { Builder, Dataquery } from '@grafana/grafana-foundation-sdk/cog';
import {
  BigValueColorMode,
  BigValueGraphMode,
  type DataSourceRef,
  GraphDrawStyle,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  StackingConfigBuilder,
  StackingMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  DashboardBuilder,
  DashboardCursorSync,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  type Threshold,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
  VariableSort,
} from '@grafana/grafana-foundation-sdk/dashboard';
import {
  DataqueryBuilder,
  PromQueryFormat,
  QueryEditorMode,
} from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TableBuilder } from '@grafana/grafana-foundation-sdk/table';
import { PanelBuilder as LinesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

/**
 * The pieces that both dashboards are made of. A panel names its unit and its queries; where its data come from is
 * always a variable, so that a dashboard can be imported into any Grafana.
 */

const LINES_HEIGHT = 8;
const STAT_HEIGHT = 4;

/** A source of data, by the name of the variable that holds it. */
export interface Source {
  readonly variable: string;
  /** Kind of data source, as Grafana names its plugin. */
  readonly plugin: string;
  /** A query of it; `legend` names the lines, `isNow` asks for the newest value only. */
  query(text: string, legend: string, refId: string, isNow: boolean): Builder<Dataquery>;
}

const refOf = ({ variable, plugin }: Source): DataSourceRef => ({
  ...{ type: plugin, uid: `\${${variable}}` },
});

export const PROMETHEUS: Source = {
  ...{ variable: 'DS_PROMETHEUS', plugin: 'prometheus' },
  query(text, legend, refId, isNow) {
    const query = new DataqueryBuilder().datasource(refOf(this)).refId(refId).expr(text);
    query.editorMode(QueryEditorMode.Code).legendFormat(legend);
    query.format(PromQueryFormat.TimeSeries);
    return isNow ? query.instant() : query.range();
  },
};

/** The package has no builder for queries of Postgres. */
export const POSTGRES: Source = {
  ...{ variable: 'DS_POSTGRES', plugin: 'grafana-postgresql-datasource' },
  query(text, format, refId) {
    const datasource = refOf(this);
    return {
      build: () => ({
        _implementsDataqueryVariant: () => undefined,
        ...{ datasource, refId, format, rawQuery: true, rawSql: text, editorMode: 'code' },
      }),
    };
  },
};

/** Text of a query and the name of its lines; for SQL `table` or `time_series`. */
export type Query = readonly [text: string, legend: string];

export interface Panel {
  readonly title: string;
  /** What it shows, and what to do where it looks bad. */
  readonly about: string;
  /** Unit as Grafana names it: `s`, `bytes`, `percentunit`, `ops`, `short`. */
  readonly unit: string;
  readonly queries: readonly Query[];
  /** Values from which on it is yellow and red; falling ones colour what is below them. */
  readonly limits?: readonly [yellow: number, red: number];
  /** Columns of the grid, 24 a row. */
  readonly width?: number;
  /** Shortest step between two points: `1m`. */
  readonly interval?: string;
}

const REF_IDS = 'ABCDEF';

export function targetsOf(
  source: Source,
  { queries }: Panel,
  isNow: boolean,
): Builder<Dataquery>[] {
  return queries.map(([text, legend], index) =>
    source.query(text, legend, REF_IDS.charAt(index), isNow),
  );
}

function thresholdsOf(limits: readonly [number, number]): ThresholdsConfigBuilder {
  const [yellow, red] = limits;
  const isFalling = red < yellow;
  const steps: Threshold[] = isFalling
    ? [
        { value: null, color: 'red' },
        { value: red, color: 'yellow' },
        { value: yellow, color: 'green' },
      ]
    : [
        { value: null, color: 'green' },
        { value: yellow, color: 'yellow' },
        { value: red, color: 'red' },
      ];
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}

type AnyBuilder = StatBuilder | LinesBuilder | TableBuilder | CandlesBuilder;

/** What every panel has, whatever shows it. */
export function common<T extends AnyBuilder>(builder: T, source: Source, panel: Panel): T {
  builder.title(panel.title).description(panel.about).datasource(refOf(source)).unit(panel.unit);
  if (panel.limits !== undefined) builder.thresholds(thresholdsOf(panel.limits));
  if (panel.interval !== undefined) builder.interval(panel.interval);
  return builder;
}

/** One figure, the newest. */
export function figure(source: Source, panel: Panel): StatBuilder {
  return common(new StatBuilder(), source, panel)
    .targets(targetsOf(source, panel, true))
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .colorMode(panel.limits === undefined ? BigValueColorMode.None : BigValueColorMode.Value)
    .graphMode(BigValueGraphMode.None)
    .height(STAT_HEIGHT)
    .span(panel.width ?? 4);
}

/** Lines over time. */
export function lines(source: Source, panel: Panel): LinesBuilder {
  return common(new LinesBuilder(), source, panel)
    .targets(targetsOf(source, panel, false))
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom)
        .showLegend(true),
    )
    .tooltip(new VizTooltipOptionsBuilder())
    .showPoints(VisibilityMode.Never)
    .fillOpacity(8)
    .height(LINES_HEIGHT)
    .span(panel.width ?? 8);
}

/** Bars over time that add up. */
export function bars(source: Source, panel: Panel): LinesBuilder {
  return lines(source, panel)
    .drawStyle(GraphDrawStyle.Bars)
    .fillOpacity(80)
    .stacking(new StackingConfigBuilder().mode(StackingMode.Normal).group('A'));
}

/** Rows. */
export function rows(source: Source, panel: Panel): TableBuilder {
  return common(new TableBuilder(), source, panel)
    .targets(targetsOf(source, panel, true))
    .height(LINES_HEIGHT)
    .span(panel.width ?? 12);
}

/** The variable that a person chooses the source of data by. */
export function sourceVariable({ variable, plugin }: Source, label: string) {
  return new DatasourceVariableBuilder(variable).type(plugin).label(label);
}

/** A variable whose values a query of the source lists. */
export function listed(source: Source, name: string, query: string, isMany: boolean) {
  const variable = new QueryVariableBuilder(name)
    .datasource(refOf(source))
    .query(source === PROMETHEUS ? { query, refId: name } : query)
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .sort(VariableSort.AlphabeticalAsc)
    .multi(isMany)
    .includeAll(isMany);
  if (isMany) variable.current({ selected: true, text: ['All'], value: ['$__all'] });
  if (isMany && source === PROMETHEUS) variable.allValue('.*');
  return variable;
}

/** A dashboard with what both have in common. `uid` is its address, and stays. */
export function dashboard(uid: string, title: string, about: string): DashboardBuilder {
  return new DashboardBuilder(title)
    .uid(uid)
    .description(about)
    .tags(['tapekeep'])
    .timezone('utc')
    .editable()
    .tooltip(DashboardCursorSync.Crosshair);
}

type AnyPanel = Parameters<DashboardBuilder['withPanel']>[0];

/** Adds a headed row of panels. */
export function section(
  board: DashboardBuilder,
  title: string,
  panels: readonly AnyPanel[],
): DashboardBuilder {
  board.withRow(new RowBuilder(title));
  for (const panel of panels) board.withPanel(panel);
  return board;
}

/** Text of the file; what the builders know besides falls away. */
export function fileOf(board: DashboardBuilder): string {
  const built = board.build();
  const panels = (built.panels ?? []).map((panel, index) => ({ ...panel, id: index + 1 }));
  return `${JSON.stringify({ ...built, panels }, null, 2)}\n`;
}
