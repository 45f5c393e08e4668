import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Metrics } from '../../src/observe/metrics.ts'
import { combineFamilies, familiesText, type Gauge } from '../../src/observe/prometheus.ts'
import { formatPico, parsePico } from '../../src/money/money.ts'
import type { KnownCall } from '../../src/observe/record.ts'

const chat: KnownCall = {
  id: 'req_1',
  at: '2026-11-23T12:00:00.000Z',
  method: 'POST',
  endpoint: '/v1/chat/completions',
  status: 200,
  outcome: 'completed',
  times: { total_ms: 1000 },
}

/** Counts a chat that has ended. */
function end(metrics: Metrics, call: Partial<KnownCall> = {}, model = 'acme/swift'): void {
  metrics.requestEnded({ ...chat, ...call }, model)
}

/** The samples of a metrics text: name with labels → value. */
function samples(text: string): Map<string, string> {
  const found = new Map<string, string>()
  const wrong: string[] = []
  for (const line of text.split('\n')) {
    if (!line || line.startsWith('#')) continue
    const match =
      /^(sluicegate_[a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})?) (\S+)$/.exec(line)
    if (!match) wrong.push(`not a sample line: ${line}`)
    else if (found.has(match[1]!)) wrong.push(`given twice: ${line}`)
    else found.set(match[1]!, match[2]!)
  }
  expect(wrong).toEqual([])
  return found
}

describe('the registry', () => {
  it('counts calls by endpoint, model, outcome and code', () => {
    const metrics = new Metrics()
    for (const outcome of ['completed', 'completed', 'failed'] as const) {
      metrics.requestStarted()
      end(metrics, { outcome, code: outcome === 'failed' ? 'upstream_error' : undefined })
    }
    const read = samples(metrics.text())
    const labels = 'endpoint="/v1/chat/completions",model="acme/swift"'
    expect(read.get(`sluicegate_requests_total{${labels},outcome="completed",code=""}`)).toBe('2')
    expect(
      read.get(`sluicegate_requests_total{${labels},outcome="failed",code="upstream_error"}`),
    ).toBe('1')
  })

  it('shows the number of calls in progress', () => {
    const metrics = new Metrics()
    metrics.requestStarted()
    metrics.requestStarted()
    expect(samples(metrics.text()).get('sluicegate_requests_running')).toBe('2')
    end(metrics)
    expect(samples(metrics.text()).get('sluicegate_requests_running')).toBe('1')
    expect(metrics.running).toBe(1)
  })

  it('adds up tokens over all outcomes of a model', () => {
    const metrics = new Metrics()
    const usage = { prompt_tokens: 12, cached_tokens: 4, completion_tokens: 3 }
    end(metrics, { usage })
    end(metrics, { outcome: 'cancelled', usage: { prompt_tokens: 5, images: 2 } })
    const read = samples(metrics.text())
    const labels = 'endpoint="/v1/chat/completions",model="acme/swift"'
    expect(read.get(`sluicegate_tokens_total{${labels},kind="prompt"}`)).toBe('17')
    expect(read.get(`sluicegate_tokens_total{${labels},kind="completion"}`)).toBe('3')
    expect(read.get(`sluicegate_tokens_total{${labels},kind="cached"}`)).toBe('4')
    expect(read.has(`sluicegate_tokens_total{${labels},kind="reasoning"}`)).toBe(false)
    expect(read.get(`sluicegate_units_total{${labels},kind="images"}`)).toBe('2')
  })

  it('counts durations in cumulative buckets', () => {
    const metrics = new Metrics()
    for (const ms of [50, 70, 4_000_000]) end(metrics, { times: { total_ms: ms } })
    const read = samples(metrics.text())
    const labels = 'endpoint="/v1/chat/completions",outcome="completed"'
    const bucket = (le: string) =>
      read.get(`sluicegate_request_duration_seconds_bucket{${labels},le="${le}"}`)
    expect(bucket('0.05')).toBe('1')
    expect(bucket('0.1')).toBe('2')
    expect(bucket('3600')).toBe('2')
    expect(bucket('+Inf')).toBe('3')
    expect(read.get(`sluicegate_request_duration_seconds_count{${labels}}`)).toBe('3')
    expect(Number(read.get(`sluicegate_request_duration_seconds_sum{${labels}}`))).toBeCloseTo(
      4000.12,
    )
  })

  it('counts admissions, settlements and upstream requests', () => {
    const metrics = new Metrics()
    metrics.entered('ok')
    metrics.entered('rpm')
    metrics.entered('rpm')
    metrics.held('credits')
    metrics.settled('charged', 0.003)
    metrics.settled('deferred', 10)
    metrics.waived()
    metrics.upstream('mock', 'timeout', 7)
    const read = samples(metrics.text())
    expect(read.get('sluicegate_entries_total{result="rpm"}')).toBe('2')
    expect(read.get('sluicegate_entries_total{result="ok"}')).toBe('1')
    expect(read.get('sluicegate_holds_total{result="credits"}')).toBe('1')
    expect(read.get('sluicegate_settlement_duration_seconds_count')).toBe('1')
    expect(read.get('sluicegate_settlements_deferred_total')).toBe('1')
    expect(read.get('sluicegate_settlements_waived_total')).toBe('1')
    expect(read.get('sluicegate_settlement_duration_seconds_bucket{le="0.0025"}')).toBe('0')
    expect(read.get('sluicegate_settlement_duration_seconds_bucket{le="0.005"}')).toBe('1')
    expect(
      read.get('sluicegate_upstream_duration_seconds_count{provider="mock",outcome="timeout"}'),
    ).toBe('1')
  })

  it('appends the given gauges', () => {
    const text = new Metrics().text([
      { name: 'sluicegate_outbox_entries', help: 'Waiting.', over: 'sum', value: 4 },
    ])
    expect(text).toContain(
      '# HELP sluicegate_outbox_entries Waiting.\n# TYPE sluicegate_outbox_entries gauge\n',
    )
    expect(samples(text).get('sluicegate_outbox_entries')).toBe('4')
  })

  it('escapes characters that would break a label', () => {
    const metrics = new Metrics()
    end(metrics, {}, 'a"b\\c\nd')
    expect(
      samples(metrics.text()).get(
        'sluicegate_requests_total{endpoint="/v1/chat/completions",model="a\\"b\\\\c\\nd",outcome="completed",code=""}',
      ),
    ).toBe('1')
  })

  it('bounds the number of series and loses no call', () => {
    const metrics = new Metrics()
    for (let i = 0; i < 6000; i++) end(metrics, { outcome: 'failed', code: `e${i}` })
    const counts = [...samples(metrics.text())].filter(([name]) =>
      name.startsWith('sluicegate_requests_total'),
    )
    expect(counts.length).toBe(5001)
    expect(counts.reduce((sum, [, value]) => sum + Number(value), 0)).toBe(6000)
    expect(counts.at(-1)![0]).toContain('model="other",outcome="failed",code="other"')
  })

  it('has exact sums of costs, however small or large', () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: 0n, max: 10n ** 17n }), { minLength: 1 }), (costs) => {
        const metrics = new Metrics()
        for (const cost of costs) end(metrics, { cost_usd: formatPico(cost) })
        const sum = samples(metrics.text()).get(
          'sluicegate_cost_usd_total{endpoint="/v1/chat/completions",model="acme/swift"}',
        )!
        expect(parsePico(sum)).toBe(costs.reduce((a, b) => a + b, 0n))
        expect(sum).toBe(formatPico(parsePico(sum)))
      }),
    )
  })
})

describe('the registries of several workers', () => {
  it('add up to what one would have, with the largest or smallest of what they know alike', () => {
    const [one, other, whole] = [new Metrics(), new Metrics(), new Metrics()]
    const calls = Array.from({ length: 40 }, (_, i) => ({
      outcome: i % 5 === 0 ? ('failed' as const) : ('completed' as const),
      // Exact in binary, so that the order of adding up does not show.
      times: { total_ms: i * 125 },
      cost_usd: formatPico(10n ** 17n + BigInt(i)),
      usage: { prompt_tokens: i },
    }))
    for (const [i, call] of calls.entries()) {
      for (const metrics of [i % 4 === 0 ? one : other, whole]) {
        end(metrics, call, `m${i % 3}`)
        metrics.guard.spent('account', parsePico(call.cost_usd))
        metrics.settled('charged', call.times.total_ms / 1000)
      }
    }
    const gauges = (value: number): Gauge[] =>
      (['sum', 'max', 'min'] as const).map((over) => ({
        name: `sluicegate_${over}`,
        help: '',
        over,
        value,
      }))
    const label = (value: string): Gauge => ({
      name: 'sluicegate_labelled',
      help: '',
      over: 'sum',
      value: { label: 'of', of: new Map([[value, 1]]) },
    })
    const families = [
      one.families([...gauges(3), label('one')]),
      other.families([...gauges(5), label('other')]),
    ]
    // Families that arrive from another process are copies.
    const sent = families.map((some) => structuredClone(some))
    const read = samples(familiesText(combineFamilies(sent)))
    for (const [name, value] of samples(whole.text()))
      expect([name, read.get(name)]).toEqual([name, value])
    const shown = ['sum', 'max', 'min', 'labelled{of="one"}', 'labelled{of="other"}']
    expect(shown.map((name) => read.get(`sluicegate_${name}`))).toEqual(['8', '5', '3', '1', '1'])
  })
})
