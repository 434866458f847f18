// Package secretbox is the transformer of package encryption that is made of XSalsa20 and Poly1305, in the
// format of upstream's provider secretbox.
//
// It authenticates the value, but not the key of the record: whoever can write to the store can put one
// record's value at another key. Its nonces are long enough to be random for any number of writes.
package secretbox
