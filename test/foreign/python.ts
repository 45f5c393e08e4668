/**
 * `npm run test:foreign:python [-- name]`: Python's packages as their users call them. Needs Python 3.12 or newer as `PYTHON`, or
 * as `python3`; without one it says so and ends well. Each `python/*.lock` is an environment of exact versions.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { notInstalled, Ring } from './kit.ts'

const folder = `${import.meta.dirname}/python`
const python = process.env.PYTHON ?? 'python3'
const asked = spawnSync(python, ['-c', 'import sys; print(sys.version_info >= (3, 12))'])
if (asked.stdout?.toString().trim() !== 'True') {
  process.stdout.write('no Python 3.12: nothing was run\n')
  process.exit(0)
}

const run = (command: string, ...args: string[]) => {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) notInstalled(stderr ?? String(error))
}

/** Installs an environment, unless it is there. @returns its Python */
function installed(name: string): string {
  const [lock, home] = [`${folder}/${name}.lock`, `${folder}/.venv/${name}`]
  const stamp = `${home}/installed.lock`
  const wanted = readFileSync(lock, 'utf8')
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== wanted) {
    run(python, '-m', 'venv', '--clear', home)
    run(`${home}/bin/pip`, 'install', '-q', '--require-hashes', '--no-deps', '-r', lock)
    writeFileSync(stamp, wanted)
  }
  return `${home}/bin/python`
}

const ring = new Ring()
const wanted = process.argv[2] ?? ''
const locks = readdirSync(folder).filter((file) => file.endsWith('.lock'))
for (const name of locks.map((file) => file.slice(0, -'.lock'.length))) {
  const child = spawn(installed(name), [`${folder}/cases.py`, name], {
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error('the process has ended')
    return value
  }
  const names: string[] = []
  try {
    for (let line = await next(); line !== ''; line = await next()) names.push(line)
  } catch (error) {
    await ring.run(`${name} starts`, () => Promise.reject(error as Error))
  }
  for (const [index, one] of names.entries()) {
    if (!one.includes(wanted)) continue
    await ring.run(one, async ({ key, url }) => {
      child.stdin.write(`${index} ${key} ${url}\n`)
      const fault = JSON.parse(await next()) as string | null
      if (fault !== null) throw new Error(fault)
    })
  }
  child.stdin.end()
  if (child.exitCode === null) await once(child, 'exit')
}
await ring.end()
