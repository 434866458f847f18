// Package encryption is encryption at rest: a layer over any storage.Store that keeps the values of
// chosen keys in another form, in upstream's formats to the byte, so that kube-apiserver reads what
// this package wrote and the other way round.
//
// [New] puts the layer over a store; [Transformers] chooses what is done to which key. The packages
// below have the transformers: aes, secretbox, and kms, whose keys a plugin guards; package config
// builds all of them from the file that upstream's --encryption-provider-config takes, and reads it
// again when it changes.
//
// A value that cannot be told, because its key is missing or somebody changed it, is an
// error of that record alone: Record.Err and Event.Err wrap storage.ErrUnreadable, Get returns the record
// with the error, and lists and watches go on. Errors tell names of keys, never keys or values.
//
// # Changing a key
//
// A record is read with any provider and key that is listed and written with the first. So:
//
//  1. Add the new key as the second one, on every server.
//  2. When all servers have it, make it the first one, on every server.
//  3. Write all records again: [Rewrite], or kubectl get secrets -A -o json | kubectl replace -f -.
//     The layer is a storage.Refresher: a write that changes nothing is done all the same when the
//     record is not in the form that the first provider and key give.
//  4. Take the old key away, on every server.
//
// With one server the first step may be left out. With KMS the plugin changes its key: from a
// minute after its status tells another key ID, values are written under the new one; then step 3.
// To end encryption, make the identity provider the first and go on with step 3.
//
// After step 4 history from before step 3 is unreadable too: its events have an Err. Backups need the old key.
package encryption
