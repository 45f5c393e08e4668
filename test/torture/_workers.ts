/** Plays a fuzz suite in several processes: each plays every n-th case of one seed, and their results are added up. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { SEED } from '../_seed.ts'
import { printResult, type RunResult } from './_run.ts'

/**
 * @param file the file of the suite
 * @param options the options of the suite, without `--workers`
 * @returns the exit status: 1 after a fault of any worker
 */
export async function playInWorkers(
  name: string,
  file: string,
  options: readonly string[],
  workers: number,
): Promise<number> {
  if (!Number.isInteger(workers) || workers < 1 || workers > 64) {
    throw new TypeError(`expected --workers 1 to 64, found ${workers}`)
  }
  const seeded = options.includes('--seed') ? options : [...options, '--seed', String(SEED)]
  const children = Array.from({ length: workers }, (_, index) =>
    fork(file, [...seeded, '--share', `${index}/${workers}`], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    }),
  )
  process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))
  const results = await Promise.all(
    children.map(async (child, index) => {
      const result = await resultOf(child, index)
      if (result.faults.length > 0) for (const other of children) stop(other)
      return result
    }),
  )
  return printResult(name, sumOf(results))
}

async function resultOf(child: ChildProcess, index: number): Promise<RunResult> {
  let result: RunResult | undefined
  child.once('message', (message: RunResult) => (result = message))
  createInterface(child.stdout!).on('line', (line) => {
    process.stdout.write(`[${index + 1}] ${line}\n`)
  })
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  if (result) return result
  const faults = [`worker ${index + 1} ended with ${code ?? signal}`]
  return { done: 0, seconds: 0, longestTurnMs: 0, mostRssBytes: 0, counts: [], faults }
}

function stop(child: ChildProcess): void {
  if (child.connected) child.send('stop', () => {})
}

function sumOf(results: readonly RunResult[]): RunResult {
  const counts = new Map<string, number>()
  for (const [what, count] of results.flatMap((one) => one.counts)) {
    counts.set(what, (counts.get(what) ?? 0) + count)
  }
  const most = (of: (one: RunResult) => number) => Math.max(...results.map(of))
  return {
    done: results.reduce((sum, { done }) => sum + done, 0),
    seconds: most(({ seconds }) => seconds),
    longestTurnMs: most(({ longestTurnMs }) => longestTurnMs),
    mostRssBytes: most(({ mostRssBytes }) => mostRssBytes),
    counts: [...counts],
    faults: results.flatMap(({ faults }) => faults),
  }
}
