// Package kms is the transformer of package encryption whose keys a plugin guards, in the format and by
// the protocol of upstream's KMS v2 provider.
//
// A [Provider] makes a random seed, has the plugin encrypt it, and seals values under the seed; the
// encrypted seed is stored with every value. The plugin is asked again for reading when a seed is not known yet,
// such as after a restart, and for writing when its status tells that its key is another one: then there is a new
// seed. So its load does not grow with reads and writes.
//
// When the plugin does not answer, values whose seed is known can be read on and on, and values can be written
// for three minutes after its last good status; after that writes fail with what is wrong with it. A
// plugin that hangs holds up few: after an unanswered call the next ones fail at once, for
// three seconds. All intervals are upstream's.
//
// [Dial] connects to a plugin over a unix socket. Package kmstest is a plugin for tests.
package kms
