package kms

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How the decrypted source gives the key of a value.
const (
	sourceKey  = 0 // it is the key; only read
	sourceSeed = 1 // it is a seed
)

const (
	maxAnnotations = 32 << 10
	maxKeyID       = 1 << 10
	maxSource      = 1 << 10
)

// envelope is upstream's EncryptedObject.
type envelope struct {
	data   []byte
	source Sealed
	kind   uint64
}

// Numbers of an EncryptedObject's fields.
const (
	fieldData protowire.Number = iota + 1
	fieldKeyID
	fieldSource
	fieldAnnotations
	fieldKind

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2
)

var (
	errEncoding = errors.New("proto: cannot parse invalid wire-format data")
	errUTF8     = errors.New("string field contains invalid UTF-8")
)

// appendRest appends all fields but the data. They are the same for all values of one source, and name it.
func (e *envelope) appendRest(dst []byte) []byte {
	dst = protowire.AppendTag(dst, fieldKeyID, protowire.BytesType)
	dst = protowire.AppendString(dst, e.source.KeyID)
	dst = protowire.AppendTag(dst, fieldSource, protowire.BytesType)
	dst = protowire.AppendBytes(dst, e.source.Ciphertext)
	for _, k := range slices.Sorted(maps.Keys(e.source.Annotations)) {
		entry := protowire.AppendTag(nil, entryKey, protowire.BytesType)
		entry = protowire.AppendString(entry, k)
		entry = protowire.AppendTag(entry, entryValue, protowire.BytesType)
		entry = protowire.AppendBytes(entry, e.source.Annotations[k])
		dst = protowire.AppendTag(dst, fieldAnnotations, protowire.BytesType)
		dst = protowire.AppendBytes(dst, entry)
	}
	if e.kind != 0 {
		dst = protowire.AppendTag(dst, fieldKind, protowire.VarintType)
		dst = protowire.AppendVarint(dst, e.kind)
	}
	return dst
}

// split returns the data and the rest of an envelope in the order in which everybody writes them.
func split(stored []byte) (data, rest []byte, ok bool) {
	n, kind, size := protowire.ConsumeTag(stored)
	if size < 0 || n != fieldData || kind != protowire.BytesType {
		return nil, nil, false
	}
	data, length := protowire.ConsumeBytes(stored[size:])
	if length < 0 {
		return nil, nil, false
	}
	return data, stored[size+length:], true
}

// appendData appends the data's field.
func appendData(dst, data []byte) []byte {
	dst = protowire.AppendTag(dst, fieldData, protowire.BytesType)
	return protowire.AppendBytes(dst, data)
}

// parse reads an EncryptedObject and checks it. It refers to stored.
func parse(stored []byte) (*envelope, error) {
	e := &envelope{}
	err := fields(stored, func(n protowire.Number, bytes []byte, number uint64, isBytes bool) error {
		switch {
		case n == fieldData && isBytes:
			e.data = bytes
		case n == fieldKeyID && isBytes:
			if !utf8.Valid(bytes) {
				return errUTF8
			}
			e.source.KeyID = string(bytes)
		case n == fieldSource && isBytes:
			e.source.Ciphertext = bytes
		case n == fieldAnnotations && isBytes:
			return e.parseAnnotation(bytes)
		case n == fieldKind && !isBytes:
			e.kind = uint64(uint32(number)) //nolint:gosec // an enum has 32 bits, and the rest is dropped
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, e.check()
}

func (e *envelope) parseAnnotation(entry []byte) error {
	var key string
	value := []byte{}
	err := fields(entry, func(n protowire.Number, bytes []byte, _ uint64, isBytes bool) error {
		switch {
		case n == entryKey && isBytes:
			if !utf8.Valid(bytes) {
				return errUTF8
			}
			key = string(bytes)
		case n == entryValue && isBytes:
			value = bytes
		}
		return nil
	})
	if err != nil {
		return err
	}
	if e.source.Annotations == nil {
		e.source.Annotations = map[string][]byte{}
	}
	e.source.Annotations[key] = value
	return nil
}

// fields calls visit for the fields of a message that hold bytes or a varint.
func fields(message []byte, visit func(n protowire.Number, bytes []byte, number uint64, isBytes bool) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errEncoding
		}
		message = message[size:]
		var bytes []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(message)
		default:
			size = protowire.ConsumeFieldValue(n, kind, message)
		}
		if size < 0 {
			return errEncoding
		}
		message = message[size:]
		if kind == protowire.BytesType || kind == protowire.VarintType {
			if err := visit(n, bytes, number, kind == protowire.BytesType); err != nil {
				return err
			}
		}
	}
	return nil
}

// check tells in upstream's words why an envelope is none.
func (e *envelope) check() error {
	switch {
	case e.kind != sourceKey && e.kind != sourceSeed:
		return fmt.Errorf("unknown encryptedDEKSourceType: %d", int32(e.kind)) //nolint:gosec // as the enum's type
	case len(e.data) == 0:
		return errors.New("encrypted data is empty")
	}
	return e.source.check()
}

func (s Sealed) check() error {
	switch size := len(s.Ciphertext); {
	case size == 0:
		return errors.New("failed to validate encrypted DEK source: encrypted DEK source is empty")
	case size > maxSource:
		return fmt.Errorf("failed to validate encrypted DEK source: encrypted DEK source is %d bytes, which exceeds the max size of %d", size, maxSource)
	}
	if err := checkKeyID(s.KeyID); err != nil {
		return fmt.Errorf("failed to validate key id: %w", err)
	}
	if err := s.checkAnnotations(); err != nil {
		return fmt.Errorf("failed to validate annotations: %w", err)
	}
	return nil
}

func checkKeyID(id string) error {
	switch {
	case id == "":
		return errors.New("keyID is empty")
	case len(id) > maxKeyID:
		return fmt.Errorf("keyID is %d bytes, which exceeds the max size of %d", len(id), maxKeyID)
	case !utf8.ValidString(id): // it could not be written
		return errUTF8
	}
	return nil
}

func (s Sealed) checkAnnotations() error {
	var wrong []error
	size := 0
	for _, k := range slices.Sorted(maps.Keys(s.Annotations)) {
		if errs := validation.IsFullyQualifiedDomainName(field.NewPath("annotations"), k); errs != nil {
			wrong = append(wrong, errs.ToAggregate())
		}
		size += len(k) + len(s.Annotations[k])
	}
	if size > maxAnnotations {
		wrong = append(wrong, fmt.Errorf("total size of annotations is %d, which exceeds the max size of %d", size, maxAnnotations))
	}
	return utilerrors.NewAggregate(wrong)
}
