/** Providers whose `use` is the name of a vendor: they get its plugin, and the options that they lack. */
import { pluginOf, vendorOf, vendorOptions } from '../../providers/vendors.ts'
import { ConfigError } from '../errors/errors.ts'
import { isRaw } from '../models/layers.ts'
import type { Environment } from './environment.ts'

/** The option of plugins that log in at a cloud by themselves. */
const CLOUD = 'vertex'
/** Options with which a provider may need no key. */
const INSTEAD_OF_KEY = ['baseURL', 'headers']

/**
 * The section `providers` with each vendor replaced by its plugin. Options of the operator win, each as a whole.
 * @param label names the file @throws ConfigError for a variable that should have an address
 */
export function withVendors(providers: unknown, env: Environment, label: string): unknown {
  if (!isRaw(providers)) return providers
  return Object.fromEntries(
    Object.entries(providers).map(([name, entry]) => [name, withVendor(name, entry, env, label)]),
  )
}

function withVendor(name: string, entry: unknown, env: Environment, label: string): unknown {
  if (!isRaw(entry) || typeof entry.use !== 'string') return entry
  const vendor = vendorOf(entry.use)
  const { options = {} } = entry
  if (!vendor || !isRaw(options)) return entry
  try {
    const fromEnvironment = vendorOptions(vendor, env)
    const isSet = vendor.variables.some((variable) => env[variable])
    // The same plugin reaches the models at a cloud, with its login and at its address.
    if (CLOUD in options) return entry
    if (!isSet && INSTEAD_OF_KEY.some((one) => one in options)) delete fromEnvironment.apiKey
    return { ...entry, use: pluginOf(vendor), options: { ...fromEnvironment, ...options } }
  } catch (error) {
    const { message } = error as Error
    throw new ConfigError(label, [{ path: `providers.${name}.options.baseURL`, message }])
  }
}
