import { readFileSync } from 'node:fs'

let version: string | undefined

/** The version in `package.json`, two levels up in a checkout, three in a build. */
export function packageVersion(): string {
  return (version ??= read())
}

function read(): string {
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')).version
    } catch {
      continue
    }
  }
  return 'unknown'
}
