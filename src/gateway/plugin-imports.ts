/** Imports of plugins by name, wherever their files lie: a plugin in a folder without packages can import the gateway too. */
import { registerHooks } from 'node:module'
import { extname } from 'node:path'

/** TypeScript in a checkout, JavaScript in a build. */
const EXTENSION = extname(import.meta.url)
const OWN: ReadonlyMap<string, string> = new Map([
  ['sluicegate', new URL(`../index${EXTENSION}`, import.meta.url).href],
  ['sluicegate/testing', new URL(`../testing${EXTENSION}`, import.meta.url).href],
])

let registered = false

/**
 * Makes imports of `sluicegate` and `sluicegate/testing` find this gateway, so that a process has one contract, and an import
 * of `valibot` find the gateway's copy where Node.js finds none.
 */
export function providePluginImports(): void {
  if (registered) return
  registered = true
  registerHooks({
    resolve(name, context, resolveNext) {
      const url = OWN.get(name)
      if (url) return { url, shortCircuit: true }
      try {
        return resolveNext(name, context)
      } catch (error) {
        if (name !== 'valibot') throw error
        return resolveNext(name, { ...context, parentURL: import.meta.url })
      }
    },
  })
}
