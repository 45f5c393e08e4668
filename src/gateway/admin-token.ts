/** The admin token that a gateway makes for itself where its configuration has none. */
import { randomInt } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config, LoadedConfig } from '../config/config.ts'
import { ConfigError } from '../errors/errors.ts'

const ADMIN_TOKEN_FILE = 'admin-token'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const LENGTH = 40

/** Path of the token of such a gateway; undefined for state without a folder of its own. */
export function adminTokenFile(state: Config['state']): string | undefined {
  return state.driver === 'file' ? join(state.path, ADMIN_TOKEN_FILE) : undefined
}

/** The token in the data folder; undefined where there is none that can be read. */
export function readAdminToken(state: Config['state']): string | undefined {
  const file = adminTokenFile(state)
  if (file === undefined) return undefined
  try {
    return readFileSync(file, 'utf8').trim() || undefined
  } catch {
    return undefined
  }
}

/**
 * The token of a gateway without one in its configuration: kept in the data folder, made by the first start; for state in
 * memory one per start; undefined with Redis, because gateways have to share it. The folder exists and is the gateway's own.
 * @throws ConfigError where the file can be neither read nor written
 */
export function ownAdminToken(state: Config['state']): string | undefined {
  if (state.driver === 'redis') return undefined
  const file = adminTokenFile(state)
  return readAdminToken(state) ?? (file === undefined ? newToken() : keep(file, newToken()))
}

/** Whether the admin API is enabled and has no token. */
export function needsToken({ enabled, token, tokens }: Config['admin']): boolean {
  return enabled && token === undefined && tokens.length === 0
}

/** A copy of the configuration that a gateway may complete: its caller compares the original with later ones. */
export function completable(loaded: LoadedConfig): LoadedConfig {
  const { config } = loaded
  return { ...loaded, config: { ...config, admin: { ...config.admin } } }
}

/** Gives a configuration without a token the gateway's own one, if there is one. */
export function useOwnToken({ admin }: Config, token: string | undefined): void {
  if (!needsToken(admin)) return
  if (token !== undefined) admin.token = token
}

/** Writes the file whole or not at all: a token that was cut off would be another one. */
function keep(file: string, token: string): string {
  const fresh = `${file}.${process.pid}`
  try {
    // A file that an interrupted start has left may have other rights.
    rmSync(fresh, { force: true })
    writeFileSync(fresh, `${token}\n`, { mode: 0o600, flag: 'wx' })
    renameSync(fresh, file)
    return token
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const message = `the admin token cannot be kept in ${file} (${code}); make the folder writable, or set admin.token`
    throw new ConfigError('The data folder', [{ path: 'admin.token', message }])
  }
}

function newToken(): string {
  return Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
}
