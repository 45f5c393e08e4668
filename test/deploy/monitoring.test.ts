/** Metrics, alert rules and the dashboard, judged by Prometheus itself. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseYAML } from 'confbox'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'
import { freePort } from '../_ports.ts'
import { page } from '../documents/_markdown.ts'
import { DEPLOY, ROOT, runTool, withTool } from './_tools.ts'

const RULES = join(DEPLOY, 'prometheus/alerts.yaml')
const RULE_TESTS = join(DEPLOY, 'prometheus/alerts.test.yaml')
const DASHBOARD = join(DEPLOY, 'grafana/sluicegate.json')
const TOKEN = 'admin-token-of-the-test'

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: { readonly runbook: string }
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string }[]
}

const rules: readonly Rule[] = (parseYAML(readFileSync(RULES, 'utf8')) as any).groups[0].rules
const dashboard = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as { panels: readonly Panel[] }
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr: expr.replaceAll('$__rate_interval', '5m') })),
)

let temporary: string
let gateway: TestGateway

beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'gateway-monitoring-'))
  gateway = await createTestGateway({
    ...MOCK_CONFIG,
    admin: { token: TOKEN },
    metrics: { money: { top: 5 } },
  })
  await gateway.chat(hello)
  await gateway.chat({ ...hello, stream: true })
  await gateway.ask('GET', '/v1/nothing')
  const money = async () => (await gateway.ask('GET', '/metrics', { key: TOKEN })).text
  await vi.waitFor(async () => expect(await money()).toContain('account_balance_usd'), 30_000)
})

afterAll(async () => {
  await gateway.close()
  await rm(temporary, { recursive: true })
})

const exposition = async () => (await gateway.ask('GET', '/metrics', { key: TOKEN })).text

it('rules and dashboard ask for metrics that there are, with labels that these have', async () => {
  const documented = readFileSync(join(ROOT, 'docs/operate/metrics.md'), 'utf8')
  const shown = await exposition()
  for (const { expr } of [...rules, ...queries]) {
    for (const [, name = '', labels = ''] of expr.matchAll(/\b(sluicegate_\w+)(?:\{([^}]*)\})?/g)) {
      const metric = name.replace(/_bucket$/, '')
      const line = documented.split('\n').find((one) => one.includes(`\`${metric}\``)) ?? ''
      expect(line, metric).not.toBe('')
      expect(shown, metric).toContain(`# TYPE ${metric} `)
      for (const [, label = ''] of labels.matchAll(/(\w+)(?:=|!=|=~)"/g)) {
        if (label !== 'instance') expect(line, `${metric} has ${label}`).toContain(`\`${label}\``)
      }
    }
  }
})

it('each alert names its entry of the runbook, and there is none without an alert', () => {
  const runbook = page('docs/operate/runbook.md')
  expect(rules.length).toBeGreaterThan(10)
  for (const { alert, annotations } of rules) {
    expect(annotations.runbook).toBe(`${runbook.path}#${alert.toLowerCase()}`)
    expect(runbook.anchors).toContain(alert.toLowerCase())
  }
  const entries = [...runbook.anchors].filter((anchor) => anchor.startsWith('sluicegate'))
  expect(entries).toHaveLength(rules.length)
})

withTool('promtool', (promtool) => {
  it('accepts the metrics after traffic', async () => {
    const shown = await exposition()
    const checking = spawn(promtool, ['check', 'metrics'])
    let said = ''
    for (const stream of [checking.stdout, checking.stderr]) {
      stream.on('data', (text: Buffer) => (said += text))
    }
    checking.stdin.end(shown)
    const [code] = await once(checking, 'close')
    expect([code, said]).toEqual([0, ''])
  })

  it('accepts the rules and the queries of the dashboard', async () => {
    const file = join(temporary, 'queries.yaml')
    const recorded = queries.map(({ expr }, i) => ({ record: `query:${i}`, expr }))
    await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }))
    for (const path of [RULES, file]) {
      const { code, err } = await runTool(promtool, ['check', 'rules', path])
      expect([code, err]).toEqual([0, ''])
    }
  })

  it('sees the alerts raised when they have to be, and only then', async () => {
    const { code, out, err } = await runTool(promtool, ['test', 'rules', RULE_TESTS])
    expect([code, out + err]).toEqual([0, expect.stringContaining('SUCCESS')])
    const tested = readFileSync(RULE_TESTS, 'utf8')
    expect(rules.filter(({ alert }) => !tested.includes(alert))).toEqual([])
  })
})

withTool('prometheus', (prometheus) => {
  it('scrapes a gateway, with the rules in use', async () => {
    const file = join(temporary, 'prometheus.yml')
    const config = {
      global: { scrape_interval: '200ms', evaluation_interval: '200ms' },
      rule_files: [RULES],
      scrape_configs: [
        {
          job_name: 'sluicegate',
          authorization: { credentials: TOKEN },
          static_configs: [{ targets: [new URL(gateway.url).host] }],
        },
      ],
    }
    await writeFile(file, JSON.stringify(config))
    const address = `127.0.0.1:${await freePort()}`
    const running = spawn(
      prometheus,
      [
        `--config.file=${file}`,
        `--storage.tsdb.path=${join(temporary, 'tsdb')}`,
        `--web.listen-address=${address}`,
      ],
      { stdio: 'ignore' },
    )
    const ended = once(running, 'close')
    onTestFinished(async () => {
      running.kill('SIGKILL')
      await ended
    })
    const valueOf = async (query: string) => {
      const url = `http://${address}/api/v1/query?query=${encodeURIComponent(query)}`
      const answer: any = await fetch(url).then(
        (response) => response.json(),
        () => undefined,
      )
      return answer?.data?.result?.[0]?.value?.[1]
    }
    await expect.poll(() => valueOf('sum(sluicegate_requests_total)')).toBe('2')
    expect(await valueOf('sluicegate_build_info')).toBe('1')
    expect(await valueOf('count(ALERTS{alertstate="firing"}) or vector(0)')).toBe('0')
  })
})

describe('the dashboard', () => {
  it('has panels in rows, each with a query, and no number twice', () => {
    expect(queries.length).toBeGreaterThan(30)
    const ids = dashboard.panels.map((panel) => (panel as { id?: number }).id)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
