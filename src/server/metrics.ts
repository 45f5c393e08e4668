/** Access to `GET /metrics`, and the gauges of a gateway. */
import { HTTPResponse, type H3Event } from 'h3'
import { NotFound } from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { familiesText, type Gauge, type MetricFamily } from '../observe/prometheus.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { AdminAuth } from './admin/auth.ts'
import type { Siblings } from './siblings.ts'

/**
 * Metrics as Prometheus text, for the readers that `admin.metrics` admits.
 * @throws NotFound when metrics are disabled, Unauthenticated without a token of the admin API
 */
export async function metricsOf(
  gateway: Gateway,
  auth: AdminAuth,
  event: H3Event,
  siblings?: Siblings,
): Promise<HTTPResponse> {
  const { config } = gateway.runtime
  if (config.admin.metrics === false) throw new NotFound('unknown_url', 'There is no such route.')
  if (config.admin.metrics === 'admin') await auth.actorOf(event)
  const own = familiesOf(gateway)
  return new HTTPResponse(familiesText(siblings ? await siblings.metrics(own) : own), {
    headers: { 'content-type': METRICS_TYPE, 'cache-control': 'no-store' },
  })
}

export function familiesOf(gateway: Gateway): readonly MetricFamily[] {
  return gateway.runtime.metrics.families(gaugesOf(gateway))
}

function gaugesOf({ runtime, bodies, startedAt, stopping, version }: Gateway): Gauge[] {
  const { catalog, routing, ledger } = runtime
  // A vendor's key brings hundreds of models: those without a call have no series.
  const called = runtime.metrics.calls.outcomes()
  const models = catalog.all().filter(({ id, wildcard }) => !wildcard || called.has(id))
  const deployments = models.flatMap((model) => model.deployments)
  const up = deployments.map((one) => [one.id, routing.healthOf(one).isOpen() ? 1 : 0] as const)
  return [
    {
      name: 'sluicegate_stopping',
      help: 'Whether the gateway is about to end.',
      over: 'max',
      value: stopping ? 1 : 0,
    },
    {
      name: 'sluicegate_build_info',
      help: 'Always 1; its labels say what runs.',
      over: 'max',
      value: 1,
      fixed: { version, node: process.versions.node, state: runtime.config.state.driver },
    },
    ...processGauges(runtime),
    {
      name: 'sluicegate_alerts_active',
      help: 'Alerts that were raised and have not ended.',
      over: 'max',
      value: { label: 'kind', of: runtime.alerts.counts },
    },
    {
      name: 'sluicegate_body_bytes',
      help: 'Memory set aside for request bodies.',
      over: 'sum',
      value: bodies.heldBytes,
    },
    ...ledgerGauges(ledger),
    ...logGauges(runtime),
    ...usageGauges(runtime),
    ...sinkGauges(runtime),
    {
      name: 'sluicegate_start_time_seconds',
      help: 'When the gateway was started, since epoch.',
      over: 'min',
      value: startedAt / 1000,
    },
    {
      name: 'sluicegate_deployment_up',
      help: 'Whether a deployment is asked: 0 while it rests.',
      over: 'min',
      value: { label: 'deployment', of: new Map(up) },
    },
  ]
}

function ledgerGauges(ledger: Runtime['ledger']): Gauge[] {
  const { ok, outbox, oldestMs } = ledger.health()
  return [
    {
      name: 'sluicegate_ledger_up',
      help: 'Whether the ledger can book.',
      over: 'min',
      value: ok ? 1 : 0,
    },
    {
      name: 'sluicegate_outbox_entries',
      help: 'Settlements not yet confirmed.',
      over: 'sum',
      value: outbox,
    },
    {
      name: 'sluicegate_outbox_age_seconds',
      help: 'Age of the oldest of them.',
      over: 'max',
      value: oldestMs / 1000,
    },
    {
      name: 'sluicegate_settlements_conflicting_total',
      help: 'Charges that were booked before with another cost.',
      over: 'sum',
      type: 'counter',
      value: ledger.conflicts,
    },
    {
      name: 'sluicegate_ledger_discrepancies',
      help: 'Sums that did not equal their rows when the ledger was last verified.',
      over: 'max',
      value: ledger.discrepancies,
    },
  ]
}

function processGauges({ loop }: Runtime): Gauge[] {
  const { heapUsed, rss } = process.memoryUsage()
  const sockets = process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap')
  return [
    {
      name: 'sluicegate_event_loop_lag_seconds',
      help: 'How long calls waited for code that kept the process busy: median and 99 % since the last look, and the longest of a minute.',
      over: 'max',
      value: { label: 'stat', of: loop.takeStats() },
    },
    {
      name: 'sluicegate_heap_bytes',
      help: 'Memory used by JavaScript.',
      over: 'sum',
      value: heapUsed,
    },
    { name: 'sluicegate_rss_bytes', help: 'Memory of the process.', over: 'sum', value: rss },
    {
      name: 'sluicegate_open_sockets',
      help: 'TCP connections of clients and to vendors.',
      over: 'sum',
      value: sockets.length,
    },
  ]
}

function sinkGauges({ sinks, metrics }: Runtime): Gauge[] {
  if (!sinks) return []
  return [
    {
      name: 'sluicegate_sink_queue',
      help: 'Events that wait for a sink.',
      over: 'sum',
      value: { label: 'sink', of: metrics.sinks.queued },
    },
  ]
}

function usageGauges({ usage }: Runtime): Gauge[] {
  if (!usage) return []
  return [
    {
      name: 'sluicegate_usage_index_lag_rows',
      help: 'Entries of the ledger that the index of usage has not read yet.',
      over: 'max',
      value: usage.lag,
    },
    {
      name: 'sluicegate_usage_differences',
      help: 'Sums of the index of usage that did not equal those of the ledger, since the start.',
      over: 'max',
      value: usage.differences,
    },
  ]
}

function logGauges({ requests, contents }: Runtime): Gauge[] {
  if (!requests) return []
  const { rows, bytes, dropped } = requests.counts
  return [
    {
      name: 'sluicegate_log_rows_total',
      help: 'Calls that were stored in the request log.',
      over: 'sum',
      type: 'counter',
      value: rows,
    },
    {
      name: 'sluicegate_log_dropped_total',
      help: 'Calls that are missing in the request log.',
      over: 'sum',
      type: 'counter',
      value: { label: 'reason', of: new Map([...dropped, ['content', contents.dropped]]) },
    },
    { name: 'sluicegate_log_bytes', help: 'Size of the request log.', over: 'max', value: bytes },
  ]
}

const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
