/** A gateway as a process of its own, by default that of `serve --demo`, with a browser in front of it. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { resolve } from 'node:path'
import { send } from '../_setup.ts'
import { TOKEN, Visitors } from './_browser.ts'

const POLL_MS = 100
const CLI = resolve(import.meta.dirname, '../../src/cli.ts')

/** Many calls, and the browser of an operator. */
export class Demo implements AsyncDisposable {
  readonly url: string
  readonly visitors: Visitors
  /** Of the gateway. */
  readonly pid: number
  readonly #child: ChildProcess

  private constructor(url: string, visitors: Visitors, child: ChildProcess) {
    this.url = url
    this.visitors = visitors
    this.pid = child.pid!
    this.#child = child
  }

  /** @param options of `serve` */
  static async open(options: readonly string[] = ['--demo']): Promise<Demo> {
    const child = spawn(process.execPath, [CLI, 'serve', ...options, '--port', '0'], {
      cwd: tmpdir(),
      env: { PATH: process.env.PATH, SLUICEGATE__ADMIN__TOKEN: TOKEN },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const url = await urlOf(child)
      const demo = new Demo(url, await Visitors.open(url), child)
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

/** The address in what the start prints. */
function urlOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = ''
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      said += text
      const [url] = /http:\/\/[\w.]+:\d+/.exec(said) ?? []
      if (url) found(url)
    })
    child.once('exit', () => failed(new Error(`The demo ended: ${said}`)))
  })
}
