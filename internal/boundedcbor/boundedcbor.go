// Package boundedcbor converts CBOR (RFC 8949), as API servers speak it (KEP-4222), to JSON and back. A list of empty maps of one
// byte each takes sixty times their size once it is decoded: what a data item takes is estimated first. Functions are safe for
// concurrent use.
package boundedcbor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	kjson "sigs.k8s.io/json"
)

// Mark begins what FromJSON returns: the tag of self-described CBOR (RFC 8949, 3.4.6).
const Mark = "\xd9\xd9\xf7"

// ErrTooLarge means that a data item takes more memory than it may.
var ErrTooLarge = errors.New("its lists have too many elements")

// ToJSON converts a data item, which may take so many bytes of memory while it is converted. Beyond that, the error wraps
// ErrTooLarge; others are the decoder's. Byte strings become text, encoded as their tag says.
func ToJSON(data []byte, memory int) ([]byte, error) {
	if takes(data, memory) > memory {
		return nil, fmt.Errorf("the object takes more than %d bytes of memory, since %w", memory, ErrTooLarge)
	}
	var value any
	if err := cbor.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// FromJSON converts a JSON document, after Mark. Integers stay integers.
func FromJSON(document []byte) ([]byte, error) {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &value); err != nil {
		return nil, err
	}
	data, err := cbor.Marshal(value)
	return append([]byte(Mark), data...), err
}

// Major types of data items (RFC 8949, 3.1).
const (
	bytestring = 2
	text       = 3
	array      = 4
	dictionary = 5
)

// takes estimates the memory of a decoded data item, up to a limit, from the heads of the items in it.
func takes(data []byte, limit int) int {
	const value, container = 32, 64
	memory := 0
	for len(data) > 0 && memory <= limit {
		major, argument := data[0]>>5, uint64(data[0]&31)
		data = data[1:]
		switch {
		case argument >= 28: // of an indefinite length, or malformed
			argument = 0
		case argument >= 24:
			var full [8]byte
			size := 1 << (argument - 24)
			if len(data) < size {
				return memory // malformed
			}
			copy(full[8-size:], data)
			argument, data = binary.BigEndian.Uint64(full[:]), data[size:]
		}
		memory += value
		switch major {
		case array, dictionary:
			memory += container
		case bytestring, text:
			length := len(data)
			if argument < uint64(length) {
				length = int(argument) //nolint:gosec // less than a length
			}
			memory += length
			data = data[length:]
		}
	}
	return memory
}
