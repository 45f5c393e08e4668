/** Members of accounts, in requests and answers. */
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

/** `POST /me/api/keys`: what a member may choose for a key. */
interface StoredMember {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly email?: string | undefined
  readonly manages: boolean
  readonly disabled: boolean
  readonly createdAt: number
  readonly changed: Changed
  readonly revision: number
}

export function memberView(member: StoredMember) {
  const { id, account, name, email = null, manages, disabled, createdAt, revision } = member
  return {
    id,
    account_id: account,
    name,
    email,
    manages,
    disabled,
    created_at: moment(createdAt),
    changed: changedView(member.changed),
    revision,
  }
}
