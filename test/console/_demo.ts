/** A gateway as a process of its own, by default that of `serve --demo`, with a browser in front of it. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { tmpdir } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { resolve } from 'node:path'
import { send } from '../_setup.ts'
import { TOKEN, Visitors } from './_browser.ts'

const POLL_MS = 100
const { PATH, NODE_COMPILE_CACHE } = process.env
const CLI = resolve(import.meta.dirname, '../../src/cli.ts')

/** Many calls, and the browser of an operator. */
export class Demo implements AsyncDisposable {
  readonly url: string
  readonly visitors: Visitors
  /** The id of the gateway's process. */
  readonly pid: number
  /** The address of its inspector; empty where it was started without one. */
  readonly inspector: string
  readonly #child: ChildProcess

  private constructor(url: string, inspector: string, visitors: Visitors, child: ChildProcess) {
    this.url = url
    this.inspector = inspector
    this.visitors = visitors
    this.pid = child.pid!
    this.#child = child
  }

  /** @param options the options of `serve`. @param inspected whether the process has an inspector. @param cwd its folder */
  static async open(
    options: readonly string[] = ['--demo'],
    inspected = false,
    cwd = tmpdir(),
  ): Promise<Demo> {
    const node = inspected ? ['--inspect=127.0.0.1:0'] : []
    const child = spawn(process.execPath, [...node, CLI, 'serve', ...options, '--port', '0'], {
      cwd,
      env: { PATH, NODE_COMPILE_CACHE, SLUICEGATE__ADMIN__TOKEN: TOKEN },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    child.stderr!.pipe(process.stderr)
    try {
      const [url, inspector] = await Promise.all([
        urlOf(child, child.stdout!, /http:\/\/[\w.]+:\d+/),
        inspected ? urlOf(child, child.stderr!, /ws:\/\/\S+/) : '',
      ])
      const demo = new Demo(url, inspector, await Visitors.open(url), child)
      await demo.#filled()
      await demo.#indexed()
      return demo
    } catch (error) {
      child.kill('SIGKILL')
      throw error
    }
  }

  /** A request of the operator. */
  admin(method: string, path: string, body?: object) {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
    return send(`${this.url}/admin${path}`, method, body && JSON.stringify(body), headers)
  }

  /** The month is written. */
  async #filled(): Promise<void> {
    for (;;) {
      const { json } = await this.admin('GET', '/session')
      if (!json.data.demo_filling) return
      await setTimeout(POLL_MS)
    }
  }

  /** Usage has read the ledger to its end. */
  async #indexed(): Promise<void> {
    const answer = await this.admin('GET', '/usage/verify')
    if (answer.status !== 200) throw new Error(`usage: ${answer.status} ${answer.text}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.visitors[Symbol.asyncDispose]()
    this.#child.kill('SIGTERM')
    if (this.#child.exitCode === null) await once(this.#child, 'exit')
  }
}

/** An address in what the start prints. */
function urlOf(child: ChildProcess, output: Readable, pattern: RegExp): Promise<string> {
  return new Promise((found, failed) => {
    let said = ''
    output.setEncoding('utf8').on('data', (text: string) => {
      said += text
      const [url] = pattern.exec(said) ?? []
      if (url) found(url)
    })
    child.once('exit', () => failed(new Error(`The demo ended: ${said}`)))
  })
}
