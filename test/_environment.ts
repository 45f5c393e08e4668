/** Tests see nothing of the shell that starts them: no keys of vendors, no proxies, no settings of a gateway. */
import { ENGINES } from '../config/starter-search.ts'
import { VENDORS } from '../providers/vendors.ts'

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
