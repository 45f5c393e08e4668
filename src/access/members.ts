/** Members: people of an account, or of a team of one, who own keys of it. */
import type { Accounts, Condition } from '../accounts/accounts.ts'
import { need } from '../accounts/secrets.ts'
import { NotFound, RevisionChanged } from '../errors/errors.ts'
import type { Changed } from '../server/admin/resources/settings.ts'
import { randomId } from '../state/ids.ts'
import type { Records } from '../state/records.ts'
import { hash } from 'node:crypto'
import { matches, nameOf } from './claims.ts'
import type { Claims, Credentials } from './credentials.ts'

const MOST_MEMBERS = 200
const INVITATION_SECONDS = 7 * 86_400

/** A person, as a provider knows it. */
interface Identity {
  readonly provider: string
  readonly sub: string
  /** The index of its members. */
  readonly key: string
}

/** Makes a member of a person with one of these values of a claim. */
interface JoinRule {
  readonly claim: string
  readonly values: readonly string[]
  readonly account: string
  readonly team?: string | undefined
  readonly manages: boolean
}

/** An account, or a team of it. */
export interface Place {
  readonly account: string
  readonly team?: string | undefined
}

/** Members of a person, and how they came to be those. */
interface SignedIn {
  readonly members: readonly Member[]
  readonly by: 'identity' | 'email' | 'rule'
}

export interface Member extends Place {
  readonly id: string
  readonly name: string
  readonly email?: string | undefined
  /** The person of a provider that it is bound to. */
  readonly identity?: Identity | undefined
  /** Whether it sees the whole place, and manages its members. */
  readonly manages: boolean
  readonly disabled: boolean
  readonly createdAt: number
  readonly changed: Changed
  readonly revision: number
}

interface NewMember {
  readonly name: string
  readonly email?: string | undefined
  /** It is absent for the default: the first member of a place manages. */
  readonly manages?: boolean | undefined
  /** The person, where it makes itself a member. */
  readonly identity?: Identity
}

type MemberChange = Partial<Pick<Member, 'name' | 'manages' | 'disabled'>> & {
  readonly email?: string | null | undefined
}

/** The members of one gateway's accounts, as records. */
export class Members {
  readonly #records: Records
  readonly #accounts: Accounts
  readonly #credentials: Credentials
  readonly #now: () => number

  /** @param now ms since epoch */
  constructor(
    records: Records,
    accounts: Accounts,
    credentials: Credentials,
    now: () => number = () => Date.now(),
  ) {
    this.#records = records
    this.#accounts = accounts
    this.#credentials = credentials
    this.#now = now
  }

  /** @param by id of the actor. @throws InvalidRequest, NotFound for an unknown account */
  async create(
    { account, team }: Place,
    { name, email, manages, identity }: NewMember,
    by: string,
  ): Promise<Member> {
    if (!(await this.#accounts.account(account))) {
      throw new NotFound('not_found', `There is no account ${JSON.stringify(account)}.`)
    }
    if (team !== undefined) {
      const stored = await this.#accounts.team(team)
      need(stored?.account === account, 'team', `a team of account ${account}`)
    }
    const others = (await this.list({ account })).filter((one) => one.team === team)
    need(others.length < MOST_MEMBERS, 'account', `one with fewer than ${MOST_MEMBERS} members`)
    const at = this.#now()
    const member: Member = {
      id: identity ? idOf(identity, account, team) : randomId('mem_'),
      account,
      ...(team !== undefined && { team }),
      ...(identity && { identity }),
      name,
      email,
      manages: manages ?? others.length === 0,
      disabled: false,
      createdAt: at,
      changed: { at, by },
      revision: 1,
    }
    await storeMember(this.#records, member)
    // A person who signs in twice at once is one member: both requests make the same.
    return identity ? ((await this.member(member.id)) ?? member) : member
  }

  /**
   * The members of a person that a provider has named: those that are bound to it; else those that were invited by its verified
   * address and not bound yet, which are bound now and for good; else one that a rule makes. Disabled ones are left out.
   */
  async ofPerson(provider: string, claims: Claims, rules: readonly JoinRule[]): Promise<SignedIn> {
    const key = identityKey(claims)
    const bound = await this.#ofIndex(key)
    if (bound.length > 0) return { members: bound.filter(isActive), by: 'identity' }
    const identity = { provider, sub: claims.sub, key }
    const email = typeof claims.email === 'string' ? claims.email : undefined
    const named = email === undefined ? [] : await this.#ofIndex(emailKey(email))
    const own: Member[] = []
    for (const { id } of named.filter((one) => isActive(one) && hasEmail(one, email!))) {
      const member = await this.#bind(id, identity)
      if (member) own.push(member)
    }
    if (own.length > 0) return { members: own, by: 'email' }
    const rule = rules.find((one) => matches(one, claims))
    if (!rule) return { members: [], by: 'identity' }
    const by = `oidc:${provider}/${claims.sub}`
    const { manages } = rule
    const member = await this.create(rule, { name: nameOf(claims), email, manages, identity }, by)
    return { members: [member].filter(isActive), by: 'rule' }
  }

  /** The members of the person that a member is bound to, itself included. */
  async places(member: Member): Promise<readonly Member[]> {
    const { identity } = member
    return identity ? (await this.#ofIndex(identity.key)).filter(isActive) : [member]
  }

  /** Binds a member to a person. @returns undefined for one that is bound to another */
  async #bind(id: string, identity: Identity): Promise<Member | undefined> {
    const at = this.#now()
    const by = `oidc:${identity.provider}/${identity.sub}`
    const bound = await this.#records.update<Member>(`member:${id}`, (member) => {
      if (!member || member.identity) return undefined
      return { ...member, identity, changed: { at, by } }
    })
    // The same person may sign in twice at once.
    const member = bound ?? (await this.member(id))
    if (member?.identity?.key !== identity.key) return undefined
    await this.#records.add(identity.key, id)
    return member
  }

  async #ofIndex(key: string): Promise<readonly Member[]> {
    const ids = await this.#records.list(key)
    const members = await this.#records.getMany<Member>(ids.map((id) => `member:${id}`))
    return members.filter((one) => one !== undefined)
  }

  async member(id: string): Promise<Member | undefined> {
    return /^mem_[a-z0-9]{1,60}$/i.test(id) ? this.#records.get<Member>(`member:${id}`) : undefined
  }

  /** The members of an account with those of its teams, or of one team, oldest first; without a place all of the gateway. */
  async list({ account, team }: Partial<Place> = {}): Promise<readonly Member[]> {
    const all = await this.#ofIndex(account === undefined ? 'members' : `members:${account}`)
    return team === undefined ? all : all.filter((one) => one.team === team)
  }

  /**
   * Changes a member. Disabling one ends its sessions and disables its keys; enabling enables no key.
   * @throws NotFound, RevisionChanged, InvalidRequest for the last one that manages
   */
  async change(
    id: string,
    change: MemberChange,
    by: string,
    condition: Condition<Member> = {},
  ): Promise<Member> {
    const { name, email, manages, disabled } = change
    const next = await this.#records.update<Member>(`member:${id}`, (member) => {
      if (!member) throw missing(id)
      checkRevision(member, condition)
      condition.replaced?.(member)
      return {
        ...member,
        name: name ?? member.name,
        email: email === undefined ? member.email : (email ?? undefined),
        manages: manages ?? member.manages,
        disabled: disabled ?? member.disabled,
        changed: { at: this.#now(), by },
      }
    })
    if (email) await this.#records.add(emailKey(email), id)
    if (disabled) await this.#stop(next!, by)
    return next!
  }

  /** Removes a member, with its sessions and open invitations. @param keepsKeys whether its keys go on */
  async remove(
    id: string,
    keepsKeys: boolean,
    by: string,
    condition: Condition<Member> = {},
  ): Promise<Member> {
    const member = await this.member(id)
    if (!member) throw missing(id)
    checkRevision(member, condition)
    condition.replaced?.(member)
    await this.#records.del(`member:${id}`)
    await this.#records.drop(`members:${member.account}`, id)
    await this.#records.drop('members', id)
    await this.#stop(member, by, keepsKeys)
    return member
  }

  /** A link to sign in with once; earlier ones of the member that were not used end. */
  async invite({ id }: Member): Promise<{ readonly secret: string; readonly expiresAt: number }> {
    await this.#endInvitation(id)
    const made = await this.#credentials.ticket(
      { kind: 'invitation', member: id },
      INVITATION_SECONDS,
    )
    const life = { ttlSeconds: INVITATION_SECONDS }
    await this.#records.put(`invitation:${id}`, { sha256: made.sha256 }, life)
    return made
  }

  /** The keys that a member owns, archived ones too. */
  async keysOf({ id, account }: Member) {
    return (await this.#accounts.listKeys(account)).filter(({ owner }) => owner === id)
  }

  async #endInvitation(id: string): Promise<void> {
    const open = await this.#records.get<{ readonly sha256: string }>(`invitation:${id}`)
    if (!open) return
    await this.#records.del(`ticket:${open.sha256}`)
    await this.#records.del(`invitation:${id}`)
  }

  async #stop(member: Member, by: string, keepsKeys = false): Promise<void> {
    const { id } = member
    await this.#endInvitation(id)
    await this.#credentials.endSessions(
      ({ subject }) => 'member' in subject && subject.member === id,
    )
    if (keepsKeys) return
    for (const key of await this.keysOf(member)) {
      if (key.disabled || key.archivedAt !== undefined) continue
      await this.#accounts.changeKey(key.id, { disabled: true }, { by })
    }
  }
}

/** Stores a new member, with all that it is found by. @returns whether there was none with its id */
export async function storeMember(records: Records, member: Member): Promise<boolean> {
  const { id, account, identity, email } = member
  const isNew = await records.create(`member:${id}`, member)
  await records.add(`members:${account}`, id)
  await records.add('members', id)
  if (identity) await records.add(identity.key, id)
  if (email) await records.add(emailKey(email), id)
  return isNew
}

const isActive = ({ disabled }: Member): boolean => !disabled

/** Whether a member that is not bound yet was invited by an address. */
function hasEmail(member: Member, email: string): boolean {
  return !member.identity && member.email?.toLowerCase() === email.toLowerCase()
}

/** Whether something of an account, or of a team, is of the place of a member: a team belongs to its account. */
export function isInPlace({ account, team }: Place, other: Place): boolean {
  return other.account === account && (team === undefined || other.team === team)
}

/** The id of a person as a member of a place, which a rule makes. */
function idOf({ key }: Identity, account: string, team = ''): string {
  return `mem_${hash('sha256', `${key}\0${account}\0${team}`).slice(0, 24)}`
}

/** The index of the members that were invited by an address. It may name some whose address was changed. */
function emailKey(email: string): string {
  return `email:${hash('sha256', email.toLowerCase())}`
}

/** The index of the members of a person. */
function identityKey({ iss, sub }: Pick<Claims, 'iss' | 'sub'>): string {
  return `identity:${hash('sha256', `${iss}\0${sub}`)}`
}

function missing(id: string): NotFound {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  return new NotFound('not_found', `There is no member ${shown}.`)
}

function checkRevision(member: Member, { expected }: Condition<Member>): void {
  if (expected !== undefined && expected !== member.revision) throw new RevisionChanged(member)
}
