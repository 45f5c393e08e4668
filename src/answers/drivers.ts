/** Opens the storage of stored answers: any driver of unstorage, or one of the operator's own. */
import { isAbsolute, resolve } from 'node:path'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { builtinDrivers, createStorage, type Driver, type Storage } from 'unstorage'

/** What the configuration says of the storage: the name of a driver, and its options. */
interface StoreSettings {
  readonly driver: string
  readonly [option: string]: unknown
}

/** Drivers that keep nothing, or that only browsers have. */
const REFUSED = /^(null|overlay|local-?storage|session-?storage|indexedb|capacitor-preferences)$/i

export function isFolder(driver: string): boolean {
  return driver === 'fs' || driver === 'fs-lite'
}

/** Why a driver is refused; undefined for one that may be tried. */
export function driverIssue({ driver }: StoreSettings): string | undefined {
  if (REFUSED.test(driver))
    return `expected a driver that keeps entries on a server, found "${driver}"`
  const isOwn = /[/.]/.test(driver)
  if (isOwn || Object.hasOwn(builtinDrivers, driver)) return undefined
  return `expected a driver of unstorage such as "lru-cache", "fs", "redis", "s3" or "http", or the path of one of your own; found "${driver}"`
}

/**
 * @param directory the directory of the configuration file, for relative paths and packages
 * @param mostBytes bound of `lru-cache`
 * @throws Error with the line that installs a missing package
 */
export async function openStore(
  { driver, ...options }: StoreSettings,
  directory: string,
  mostBytes: number,
): Promise<Storage> {
  const own = await optionsOf(driver, options, directory, mostBytes)
  const make = await driverOf(driver, directory)
  try {
    const storage = createStorage({ driver: make(own) })
    const client: unknown = storage.getMount('').driver.getInstance?.()
    // A connection that is lost is a miss, told by the cache; without a listener it would end the process.
    if (hasEvents(client)) client.on('error', () => {})
    return storage
  } catch (error) {
    throw missing(driver, error)
  }
}

async function optionsOf(
  driver: string,
  options: Readonly<Record<string, unknown>>,
  directory: string,
  mostBytes: number,
): Promise<object> {
  // Bytes alone bound it: room for a number of entries would be taken at once.
  if (driver === 'lru-cache') return { max: 0, maxSize: mostBytes, ...options }
  if (driver === 'redis') return { maxRetriesPerRequest: 1, enableOfflineQueue: false, ...options }
  if (isFolder(driver) && typeof options.base === 'string' && !isAbsolute(options.base)) {
    return { ...options, base: resolve(directory, options.base) }
  }
  return options
}

async function driverOf(driver: string, directory: string): Promise<(options: object) => Driver> {
  const name = Object.hasOwn(builtinDrivers, driver)
    ? builtinDrivers[driver as keyof typeof builtinDrivers]
    : pathToFileURL(createRequire(resolve(directory, 'x.js')).resolve(driver)).href
  try {
    const { default: make } = (await import(name)) as { default: (options: object) => Driver }
    return make
  } catch (error) {
    throw missing(driver, error)
  }
}

/** @returns the same error, or one that says how to install what the driver needs */
function missing(driver: string, error: unknown): unknown {
  const named = /Cannot find (?:package|module) '([^']+)'/.exec(String(error))?.[1]
  if (named === undefined) return error
  return new Error(`the driver "${driver}" needs a package: npm install ${named}`, { cause: error })
}

interface Emitter {
  on(event: 'error', listener: () => void): void
}

function hasEvents(client: unknown): client is Emitter {
  return typeof client === 'object' && client !== null && 'on' in client
}
