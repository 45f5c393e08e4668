/** Sentences that more than one screen shows. */
import type { Role } from './state.ts'

/** The hint on controls that the reader's role does not allow. */
export const needsRole = (role: Role): string => `needs the role ${role}`

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

/** Advice for the holder of a key after a refusal, by `code`. */
export const MEANINGS: Readonly<Record<string, string>> = {
  rate_limited:
    'The key, or all keys of its account together, made more requests than a minute allows. The header Retry-After says when to try again.',
  too_many_concurrent:
    'As many calls as the key may make at once were running. Wait for one of them to end.',
  insufficient_credits:
    'The account that pays for the key has too little money left. Its owner can add credits.',
  key_limit_exceeded:
    'The key has spent what it may spend in this window. The window is under Limits, with the moment at which it begins anew.',
  model_not_found: 'The gateway has no model of that name. Models lists those that there are.',
  model_not_allowed: 'The key may not use that model. Models lists those that it may.',
  policy_violation: 'The request, or its answer, is against the policy of the key.',
  content_policy_violation: 'The vendor of the model refused the request.',
  invalid_request_error: 'The request was not in the form that the endpoint takes.',
}

export const ESTIMATED = 'The vendor reported nothing; 4 characters count as a token.'

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
