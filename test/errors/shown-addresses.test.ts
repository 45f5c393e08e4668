/** Addresses as messages and settings show them. */
import { expect, it } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { settingsOf } from '../../src/config/settings.ts'
import { maskedAddress } from '../../src/errors/issues.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, MOCK_CONFIG } from '../_setup.ts'

const KEY = 'Zq7RmW2xJ4tYh8LpB6nC'

it.each([
  [
    'https://hooks.slack.com/services/T00/B00/short',
    'https://hooks.slack.com/services/[secret]/[secret]/[secret]',
  ],
  ['https://user:pass@acme.com/v1', 'https://[secret]@acme.com/v1'],
  [
    'https://acme.com/v1?key=abc&api-version=2024-10-21#x',
    'https://acme.com/v1?key=[secret]&api-version=2024-10-21#[secret]',
  ],
  [`https://acme.com/hook/${KEY}/x`, 'https://acme.com/hook/[secret]/x'],
  ['https://api.acme.com/v1/chat', 'https://api.acme.com/v1/chat'],
  ['no address ?key=abc', 'no address ?key=abc'],
])('%s is shown as %s', (address, shown) => {
  expect(maskedAddress(address)).toBe(shown)
})

it('secret parts of addresses are hidden in the log wherever they stand, plain words are not', async () => {
  await using gateway = await createTestGateway({
    ...MOCK_CONFIG,
    providers: {
      ...MOCK_CONFIG.providers,
      acme: {
        use: 'openai-compatible',
        options: {
          baseURL: `https://someone:${KEY}-p@acme.com/hook/${KEY}?sig=ab12cd34&env=production`,
        },
      },
    },
  })
  const { mask } = gateway.gateway.runtime
  const line = `no answer of ${KEY}, ${KEY}-p, ab12cd34 in production by someone`
  expect(mask.clean(line)).toBe(
    'no answer of [secret], [secret], [secret] in production by someone',
  )
})

it('settings and errors show no secret of an address, and no text that is a secret elsewhere', async () => {
  const options = { baseURL: `https://acme.com/v1?key=${KEY}`, apiKey: KEY, quirks: `x-${KEY}` }
  const config = {
    admin: { token: 'token-of-the-admin' },
    providers: { acme: { use: 'openai-compatible', options } },
    sinks: [{ use: 'slack', options: { url: 'https://hooks.slack.com/services/T0/B0/xyz' } }],
  }
  const cwd = await folder({ 'gateway.config.json': JSON.stringify(config) })
  const shown = JSON.stringify(settingsOf(await loadConfig({ cwd, env: {} })))
  expect(shown).not.toContain(KEY)
  expect(shown).not.toContain('xyz')
  expect(shown).toContain('https://acme.com/v1?key=[secret]')
  const broken = { ...config, server: { publicUrl: `ftp://acme.com/?token=${KEY}` } }
  const other = await folder({ 'gateway.config.json': JSON.stringify(broken) })
  const error = await loadConfig({ cwd: other, env: {} }).catch((thrown: Error) => thrown)
  expect(String(error)).toContain('server.publicUrl')
  expect(String(error)).not.toContain(KEY)
})
