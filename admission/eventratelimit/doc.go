// Package eventratelimit is upstream's admission plugin EventRateLimit: it limits how many Events are written in a second: by all, in
// each namespace, by each user, or by each source about each object. A limit is a token bucket; the plugin keeps a bounded number of
// them and forgets those that were not used for longest, which start full again.
//
// # Errors
//
// An event beyond a limit is an admission.Error of code 429. New fails with an error that names the field of a bad limit. A dry run
// does not count.
//
// A Plugin is safe for concurrent use.
package eventratelimit
