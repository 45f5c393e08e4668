/** The inspector of a gateway process: collects the garbage of all its threads, and says what is left. Nothing in the gateway knows of it. */

/** What a process holds once its garbage is collected, MiB. */
export interface Held {
  /** Objects of all threads, and the memory outside of heaps that they own. */
  readonly objects: number
  readonly threads: number
}

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>>
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly message: string }
}

/** Sends the commands of one thread. */
type Ask = (method: string, params?: object) => Promise<Readonly<Record<string, unknown>>>

/** A connection to the inspector of a process that was started with `--inspect`. */
export class Inspector implements Disposable {
  readonly #socket: WebSocket
  readonly #main: Ask
  /** Threads of the process by the id of their session. */
  readonly #threads = new Map<string, Ask>()
  readonly #asked = new Map<string, PromiseWithResolvers<Message>>()
  #number = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
    this.#main = this.#asker('', (text) => socket.send(text))
    socket.addEventListener('message', ({ data }) => this.#heard('', JSON.parse(String(data))))
  }

  /** @param url the address that the process prints */
  static async open(url: string): Promise<Inspector> {
    const socket = new WebSocket(url)
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener('open', () => resolve(), { once: true })
      socket.addEventListener('error', () => reject(new Error(`no inspector at ${url}`)), {
        once: true,
      })
    })
    const inspector = new Inspector(socket)
    await inspector.#main('NodeWorker.enable', { waitForDebuggerOnStart: false })
    return inspector
  }

  /** Collects the garbage of all threads. */
  async held(): Promise<Held> {
    const threads = [this.#main, ...this.#threads.values()]
    let objects = 0
    for (const ask of threads) {
      await ask('HeapProfiler.collectGarbage')
      const { usedSize, backingStorageSize } = await ask('Runtime.getHeapUsage')
      objects += Number(usedSize) + Number(backingStorageSize ?? 0)
    }
    return { objects: objects / 2 ** 20, threads: threads.length }
  }

  [Symbol.dispose](): void {
    this.#socket.close()
  }

  #asker(session: string, send: (text: string) => void): Ask {
    return async (method, params = {}) => {
      const id = ++this.#number
      const asked = Promise.withResolvers<Message>()
      this.#asked.set(`${session} ${id}`, asked)
      send(JSON.stringify({ id, method, params }))
      const { result, error } = await asked.promise
      if (error) throw new Error(`${method}: ${error.message}`)
      return result ?? {}
    }
  }

  #heard(session: string, { id, method, params, ...answer }: Message): void {
    if (id !== undefined) {
      this.#asked.get(`${session} ${id}`)?.resolve(answer)
      this.#asked.delete(`${session} ${id}`)
      return
    }
    const sessionId = String(params?.sessionId)
    if (method === 'NodeWorker.attachedToWorker') {
      const send = (message: string) =>
        void this.#main('NodeWorker.sendMessageToWorker', { sessionId, message })
      this.#threads.set(sessionId, this.#asker(sessionId, send))
    } else if (method === 'NodeWorker.detachedFromWorker') this.#threads.delete(sessionId)
    else if (method === 'NodeWorker.receivedMessageFromWorker')
      this.#heard(sessionId, JSON.parse(String(params!.message)))
  }
}
