package apiserver

import (
	"encoding/binary"
)

// protoField is a length-delimited field of a protobuf message.
type protoField struct {
	number int
	value  []byte
}

func (f protoField) size() int {
	return 1 + len(binary.AppendUvarint(nil, uint64(len(f.value)))) + len(f.value)
}

func (f protoField) append(to []byte) []byte { return appendField(to, f.number, f.value) }

// appendField appends a length-delimited protobuf field.
func appendField(to []byte, number int, value []byte) []byte {
	to = append(to, byte(number<<3|2))
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}
