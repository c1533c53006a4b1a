// The exports of `tidegate`.

export { Tidegate } from './client.js';
export { TidegateError } from './error.js';
export { ipKey } from './ip.js';
export type { Logger } from './warnings.js';
export type { TidegateOptions } from './options.js';
export type {
  AskOptions, CallOptions, Check, CheckManyOptions, CheckOptions, Decision, Key, Observation, OnError, Permit,
  Permitted, Renewal, Reservation, Source,
} from './types.js';
