/** Members of accounts and teams, in requests and answers. */
import * as v from 'valibot'
import { changedView, flag, moment, recordId, text, type Changed } from './settings.ts'

const EMAIL = 'an e-mail address'
const email = v.pipe(v.string(EMAIL), v.maxLength(254, EMAIL), v.regex(/^[^\s@]+@[^\s@]+$/, EMAIL))

/** `POST /me/api/members`. */
export const invitation = {
  name: text(100),
  email: v.nullish(email),
  manages: v.nullish(flag),
  link: v.nullish(flag),
  team: v.nullish(recordId),
}

/** `POST /members`. */
export const newMember = v.strictObject({ account: recordId, ...invitation })

/** `PATCH /members/:id`. */
export const memberChange = v.strictObject({
  name: v.optional(text(100)),
  email: v.nullish(email),
  manages: v.optional(flag),
  disabled: v.optional(flag),
})

interface StoredMember {
  readonly id: string
  readonly account: string
  readonly team?: string | undefined
  readonly name: string
  readonly email?: string | undefined
  readonly manages: boolean
  readonly disabled: boolean
  readonly createdAt: number
  readonly changed: Changed
  readonly revision: number
}

export function memberView(member: StoredMember) {
  const { id, account, team = null, name, email = null, manages, disabled } = member
  return {
    id,
    account_id: account,
    team_id: team,
    name,
    email,
    manages,
    disabled,
    created_at: moment(member.createdAt),
    changed: changedView(member.changed),
    revision: member.revision,
  }
}
