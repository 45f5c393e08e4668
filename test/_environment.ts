/**
 * Tests see nothing of the shell that starts them: no keys of vendors, no proxies, no settings of a gateway. Each file has
 * the time that this machine needs when the file begins.
 */
import { enableCompileCache } from 'node:module'
import { vi } from 'vitest'
import { ENGINES } from '../config/starter-search.ts'
import { VENDORS } from '../providers/vendors.ts'
import { providePluginImports } from '../src/gateway/plugin-imports.ts'
import { patience } from './_patience.ts'
import { runs } from './_runs.ts'
import { SEED } from './_seed.ts'

const NAMES: ReadonlySet<string> = new Set([
  ...VENDORS.flatMap(({ variables, address = [] }) => [...variables, ...address]),
  ...ENGINES.map(({ variable }) => variable),
  'NO_COLOR',
  'FORCE_COLOR',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_ENV_PROXY',
])
const PROXY = /^(?:https?|all|no)_proxy$/i

for (const name of Object.keys(process.env)) {
  if (NAMES.has(name) || PROXY.test(name) || name.startsWith('SLUICEGATE_'))
    delete process.env[name]
}

// A test that runs many times as often has as many times as long.
const times = patience() * runs(1)
vi.setConfig({ testTimeout: 120_000 * times, hookTimeout: 60_000 * times })

// Loading it takes longer than most files of tests.
if (process.env.SEED !== undefined) (await import('fast-check')).configureGlobal({ seed: SEED })

// The command line does it too. The threads of a gateway start in a third of the time.
enableCompileCache()
// Plugins of tests and examples find this gateway by its name.
providePluginImports()
