/** Exported tables of new-api. */
import { mkdirSync, writeFileSync } from 'node:fs'

const write = (name: string, rows: readonly object[]) =>
  writeFileSync(`tables/${name}.json`, JSON.stringify(rows))

const token = { user_id: 7, status: 1, expired_time: -1, unlimited_quota: 1, remain_quota: 0 }
mkdirSync('tables', { recursive: true })
write('channels', [
  {
    id: 1,
    type: 1,
    base_url: 'https://one.example',
    key: 'none',
    models: 'swift-latest',
    status: 1,
    group: 'default',
    priority: 0,
  },
])
write('options', [
  { key: 'ModelRatio', value: '{"swift-latest":1}' },
  { key: 'CompletionRatio', value: '{"swift-latest":4}' },
])
write('users', [{ id: 7, username: 'ada', quota: 1_250_000, status: 1, group: 'default' }])
write('tokens', [
  { ...token, id: 1, key: '0123456789abcdef', name: 'laptop' },
  { ...token, id: 2, key: 'fedcba9876543210', name: 'office', allow_ips: '10.0.0.1' },
])
