/** Plugins with one fault each: the kits have to find 95 of 100, and say which check failed; and nothing in right ones. */
import { CHECKS, STREAMS } from '../testing/mutants/guards.ts'
import { STREAMING_PROVIDERS } from '../testing/mutants/other-providers.ts'
import { LOCAL_GUARDS, SCORING_GUARDS, SEARCHES_BY_ADDRESS } from '../testing/mutants/others.ts'
import { judge, play, type Family } from '../testing/mutants/play.ts'
import { PROVIDERS } from '../testing/mutants/providers.ts'
import { SEARCHES } from '../testing/mutants/searches.ts'
import { SERVICES } from '../testing/mutants/services.ts'
import { SINKS } from '../testing/mutants/sinks.ts'

const FAMILIES: Readonly<Record<string, Family>> = {
  providers: PROVIDERS,
  'guards, one function': CHECKS,
  'guards, streams': STREAMS,
  'guards, services': SERVICES,
  searches: SEARCHES,
  sinks: SINKS,
  'others, providers': STREAMING_PROVIDERS,
  'others, local guards': LOCAL_GUARDS,
  'others, services': SCORING_GUARDS,
  'others, searches': SEARCHES_BY_ADDRESS,
}
/** Many of the faults are that something does not end. */
const HANGS_MS = 2000
const MIN_SHARE = 0.95
/** Part of the name of a family, and of a mutant. */
const [onlyFamily = '', only = ''] = process.argv.slice(2)

for (const [name, family] of Object.entries(FAMILIES)) {
  if (!name.includes(onlyFamily)) continue
  const { failed } = await play(family.original)
  for (const { name: check, notes } of failed) {
    process.stdout.write(`${name}: the right one fails ${check}: ${notes.join('; ')}\n`)
    process.exitCode = 1
  }
  let caught = 0
  const mutants = family.mutants.filter((one) => one.name.includes(only))
  for (const one of mutants) {
    const result = await judge(family, one, HANGS_MS)
    if (result.caught) caught++
    else
      process.stdout.write(
        `${name}: "${one.name}" is not found by ${one.checks.join(' or ')}; failed: ${result.failed.join(' / ') || 'nothing'}\n`,
      )
  }
  process.stdout.write(`${name}: ${caught} of ${mutants.length}\n`)
  if (caught < mutants.length * MIN_SHARE) process.exitCode = 1
}
