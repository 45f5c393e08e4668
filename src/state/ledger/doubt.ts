/** Sentences about a store that is in doubt. */
import { Unavailable } from '../../errors/errors.ts'
import type { AcceptedDoubt, Doubt } from './ledger.ts'

/** The doubt that an operator has accepted is not the present one. */
export class StateChanged extends Error {}

/** @param place where the store is, without secrets */
export function sentenceOf({ kind, known, found }: Doubt, place: string): string {
  const accept = 'sluicegate ledger accept'
  if (kind === 'older') {
    const as =
      found?.at === undefined
        ? 'lacks what this gateway has written'
        : `is as of ${moment(found.at)}`
    return (
      `The ledger at ${place} ${as}; this gateway has seen it at ${moment(known.at)}. Nothing is admitted. ` +
      `Put the newer data back, or go on with this: ${accept}`
    )
  }
  const holds = kind === 'emptied' ? 'holds no ledger' : `holds ${found?.id ?? 'another ledger'}`
  return (
    `${place} ${holds}; this gateway has used ${known.id}. Nothing is admitted. ` +
    `Correct the address or put the data back, or go on with this: ${accept}`
  )
}

/** What a client gets while a store is in doubt. */
export function inDoubt(): Unavailable {
  return new Unavailable(
    'service_unavailable',
    'The ledger is not the one that was used until now.',
  )
}

/** @throws StateChanged */
export function checkAccepted(doubt: Doubt | undefined, { id, kind }: AcceptedDoubt): Doubt {
  if (doubt?.known.id === id && doubt.kind === kind) return doubt
  const now = doubt
    ? `It is ${doubt.kind} now, in place of ${doubt.known.id}.`
    : 'It is not in doubt.'
  throw new StateChanged(`The ledger is not what was accepted. ${now}`)
}

function moment(at: number): string {
  return new Date(at).toISOString()
}
