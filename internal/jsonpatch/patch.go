package jsonpatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxOperations is the maximum number of operations that upstream's API server accepts in one patch.
	MaxOperations = 10000
	// MaxCopied is the maximum number of bytes of JSON that the copy operations of one patch may copy in total:
	// upstream's limit.
	MaxCopied = 3 << 20
	// MaxMoved is the maximum number of array members that one patch may shift in total, by adding and removing others
	// before them. Even with MaxOperations, a patch stays below it in arrays of 25,000 members.
	MaxMoved = 1 << 28
)

// ErrMoved means that a patch shifts more than MaxMoved array members.
var ErrMoved = fmt.Errorf("the patch moves more than %d members of arrays by adding and removing others in front of them: "+
	"replace the arrays as a whole, or send several patches", MaxMoved)

// ErrTest means that a value is not what a test operation says.
var ErrTest = errors.New("test failed")

// Errors of operations, in the library's words.
var (
	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
	errAppend  = errors.New("malformed operation: there is nothing to set a member of")
	errReplace = errors.New("malformed operation: replace operation has no value")
)

// Patch is a decoded JSON patch.
type Patch []Operation

// Operation is one operation of a Patch; its parts are not decoded.
type Operation map[string]*json.RawMessage

// Decode reads a JSON patch. Its errors are those of encoding/json.
func Decode(data []byte) (Patch, error) {
	var p Patch
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	return p, nil
}

// Apply applies a patch to a document and returns the new one. If ctx ends, it returns the error of ctx; all other
// errors say why the patch does not fit the document. It does not limit the number of operations.
func (p Patch) Apply(ctx context.Context, document []byte) ([]byte, error) {
	if len(document) == 0 {
		return document, nil
	}
	root, err := open(document)
	if err != nil {
		return nil, err
	}
	r := &run{root: root}
	for _, o := range p {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.do(o); err != nil {
			return nil, err
		}
	}
	var to bytes.Buffer
	err = r.root.append(&to, 1)
	return to.Bytes(), err
}

// open decodes a document, which must be an object or an array.
func open(document []byte) (*node, error) {
	type partialDoc map[string]json.RawMessage
	n := &node{raw: bytes.Trim(document, space)}
	if !json.Valid(document) || !n.toObject() && !n.toArray() {
		// For the text of the error.
		return nil, json.Unmarshal(document, &partialDoc{})
	}
	return n, nil
}

// run is one application of a patch.
type run struct {
	root          *node
	copied, moved int
}

func (r *run) do(o Operation) error {
	switch kind := o.kind(); kind {
	case "add":
		return r.add(o)
	case "remove":
		return r.remove(o)
	case "replace":
		return r.replace(o)
	case "move":
		return r.move(o)
	case "test":
		return r.test(o)
	case "copy":
		return r.copy(o)
	default:
		return fmt.Errorf("Unexpected kind: %s", kind) //nolint:staticcheck // upstream's words
	}
}

// kind returns an operation's kind.
func (o Operation) kind() string {
	kind := "unknown"
	if raw := o["op"]; raw != nil && json.Unmarshal(*raw, &kind) != nil {
		return "unknown"
	}
	return kind
}

// pointer reads the path or the source of an operation; missing is the error text if there is none.
func (o Operation) pointer(name, missing string) (string, error) {
	raw := o[name]
	if raw == nil {
		return "unknown", fmt.Errorf("%s: %w", missing, errMissing)
	}
	var path string
	if err := json.Unmarshal(*raw, &path); err != nil {
		return "unknown", err
	}
	return path, nil
}

func (o Operation) path() (string, error) { return o.pointer("path", "operation missing path field") }

func (o Operation) from() (string, error) { return o.pointer("from", "operation, missing from field") }

// value returns the operation's value, nil if it has none.
func (o Operation) value() *node {
	raw, ok := o["value"]
	switch {
	case !ok:
		return nil
	case raw == nil:
		return &node{}
	}
	return &node{raw: *raw}
}

// find returns the object or array that contains, or would contain, the value at a path, and the value's key in it.
func (r *run) find(path string) (*node, string) {
	_, rest, ok := strings.Cut(path, "/") // upstream ignores what is before the first slash
	if !ok {
		return nil, ""
	}
	at := r.root
	for {
		part, more, ok := strings.Cut(rest, "/")
		if !ok {
			return at, decodeKey(part)
		}
		rest = more
		next, err := at.get(decodeKey(part))
		if err != nil || next == nil || len(next.raw) == 0 {
			return nil, ""
		}
		if next.raw[0] == '[' && !next.toArray() || next.raw[0] != '[' && !next.toObject() {
			return nil, ""
		}
		at = next
	}
}

func decodeKey(part string) string {
	if !strings.Contains(part, "~") {
		return part
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
}

// index reads an index into an array of n members; negative ones count from its end.
func index(key string, n int) (int, error) {
	i, err := strconv.Atoi(key)
	switch {
	case err != nil:
		return 0, err
	case i >= n || i < -n:
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex) //nolint:staticcheck // upstream's words
	case i < 0:
		i += n
	}
	return i, nil
}

// get returns the member with a key; for an object, nil if there is none.
func (n *node) get(key string) (*node, error) {
	if n.form == object {
		return n.doc[key], nil
	}
	i, err := index(key, len(n.list))
	if err != nil {
		return nil, err
	}
	return n.list[i], nil
}

// insert adds a member; in an array, the following ones move up.
func (r *run) insert(to *node, key string, value *node) error {
	switch {
	case to.form == object && to.doc == nil:
		return errAppend
	case to.form == object:
		to.doc[key] = value
		return nil
	case key == "-":
		to.list = append(to.list, value)
		return nil
	}
	if _, err := strconv.Atoi(key); err != nil {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	i, err := index(key, len(to.list)+1)
	if err != nil {
		return err
	}
	to.list = slices.Insert(to.list, i, value)
	return r.shift(len(to.list) - i - 1)
}

// delete removes a member; in an array, the following ones move down.
func (r *run) delete(from *node, key string) error {
	if from.form == object {
		if _, ok := from.doc[key]; !ok {
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing) //nolint:staticcheck // upstream's words
		}
		delete(from.doc, key)
		return nil
	}
	i, err := index(key, len(from.list))
	if err != nil {
		return err
	}
	from.list = slices.Delete(from.list, i, i+1)
	return r.shift(len(from.list) - i)
}

// shift accounts for moved members.
func (r *run) shift(members int) error {
	if r.moved += members; r.moved > MaxMoved {
		return ErrMoved
	}
	return nil
}

func (r *run) add(o Operation) error {
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("add operation failed to decode path: %w", errMissing)
	}
	at, key := r.find(path)
	if at == nil {
		return fmt.Errorf("add operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := r.insert(at, key, o.value()); err != nil {
		return fmt.Errorf("error in add for path: '%s': %w", path, err)
	}
	return nil
}

func (r *run) remove(o Operation) error {
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("remove operation failed to decode path: %w", errMissing)
	}
	at, key := r.find(path)
	if at == nil {
		return fmt.Errorf("remove operation does not apply: doc is missing path: \"%s\": %w", path, errMissing)
	}
	if err := r.delete(at, key); err != nil {
		return fmt.Errorf("error in remove for path: '%s': %w", path, err)
	}
	return nil
}

func (r *run) replace(o Operation) error {
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("replace operation failed to decode path: %w", err)
	}
	if path == "" {
		root := o.value()
		switch {
		case root == nil:
			return errReplace
		case !root.toObject() && !root.toArray():
			return errors.New("replace operation value must be object or array: %!w(<nil>)") // as upstream
		}
		r.root = root
		return nil
	}
	at, key := r.find(path)
	if at == nil {
		return fmt.Errorf("replace operation does not apply: doc is missing path: %s: %w", path, errMissing)
	}
	if at.form == object {
		if at.doc == nil {
			return errAppend
		}
		at.doc[key] = o.value()
		return nil
	}
	i, err := index(key, len(at.list))
	if err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", path, errMissing)
	}
	at.list[i] = o.value()
	return nil
}

func (r *run) move(o Operation) error {
	from, err := o.from()
	if err != nil {
		return fmt.Errorf("move operation failed to decode from: %w", err)
	}
	at, key := r.find(from)
	if at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	value, err := at.get(key)
	if err == nil {
		err = r.delete(at, key)
	}
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("move operation failed to decode path: %w", err)
	}
	if at, key = r.find(path); at == nil {
		return fmt.Errorf("move operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if err := r.insert(at, key, value); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", path, err)
	}
	return nil
}

func (r *run) test(o Operation) error {
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("test operation failed to decode path: %w", err)
	}
	value := o.value()
	found := r.root
	if path != "" {
		at, key := r.find(path)
		if at == nil {
			return fmt.Errorf("test operation does not apply: is missing path: %s: %w", path, errMissing)
		}
		if found, err = at.get(key); err != nil {
			return fmt.Errorf("error in test for path: '%s': %w", path, err)
		}
	}
	switch {
	case found == nil && (value == nil || len(value.raw) == 0):
		return nil
	case found == nil || value == nil || !found.equal(value):
		return fmt.Errorf("testing value %s failed: %w", path, ErrTest)
	}
	return nil
}

func (r *run) copy(o Operation) error {
	from, err := o.from()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode from: %w", err)
	}
	at, key := r.find(from)
	if at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing from path: %s: %w", from, errMissing)
	}
	value, err := at.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", from, err)
	}
	path, err := o.path()
	if err != nil {
		return fmt.Errorf("copy operation failed to decode path: %w", errMissing)
	}
	if at, key = r.find(path); at == nil {
		return fmt.Errorf("copy operation does not apply: doc is missing destination path: %s: %w", path, errMissing)
	}
	if value != nil {
		var to bytes.Buffer
		if err := value.append(&to, 1); err != nil {
			return fmt.Errorf("error while performing deep copy: %w", err)
		}
		if r.copied += to.Len(); r.copied > MaxCopied {
			return fmt.Errorf("Unable to complete the copy, the accumulated size increase of copy is %d, exceeding the limit %d", //nolint:staticcheck // upstream's words
				r.copied, MaxCopied)
		}
		value = &node{raw: to.Bytes()}
	}
	if err := r.insert(at, key, value); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}
