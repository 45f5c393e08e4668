/** Sentences that more than one screen shows. */
import type { Role } from './state.ts'

/** Shown on controls that the reader's role does not allow. */
export const needsRole = (role: Role): string => `needs the role ${role}`

/** What became of a call, by its `code`. */
export const CODES: Readonly<Record<string, string>> = {
  rate_limited: 'rate',
  too_many_concurrent: 'concurrency',
  insufficient_credits: 'balance',
  key_limit_exceeded: 'spend cap',
  policy_violation: 'policy',
  model_not_found: 'model',
  model_not_allowed: 'not allowed',
  invalid_api_key: 'key',
}

/** What an estimated figure is. */
export const ESTIMATED = 'The vendor reported nothing; 4 characters count as a token.'

/** Definitions of the categories that a policy can deny. */
export const CATEGORIES: Readonly<Record<string, string>> = {
  code: 'Writing, changing, explaining, running or judging program text: source, queries, markup, configuration, shell, regular expressions, formulas, tests, schemas. Not: talk about the software trade, product support without debugging.',
  math: 'Computing, solving or proving something as the point of the request, homework and everyday arithmetic included. Not: quantities, dates, prices and facts that happen to be numbers.',
  roleplay:
    'The assistant is asked to be, or speaks as, a person or character; shared fiction, companion talk, game mastering. Not: third-person stories, functional framing such as "act as a proofreader".',
  medical:
    'Diagnosis, treatment, dosing, reading of symptoms or results, for a human being. Not: general biology, public health facts, logistics of clinics, food.',
  legal:
    'Advice on rights, liability or procedure in a situation; drafting or reading legal documents. Not: history and civics, news.',
  'financial-advice':
    'What to buy, sell, borrow, insure or save, personal tax and pension choices, judging a portfolio. Not: definitions, company facts, billing support.',
  'personal-data':
    'Text that carries data of an identifiable private person, or a request to find or compile it. Not: public figures in their public role, organisations, placeholders.',
}
