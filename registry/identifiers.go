package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// suffixAlphabet omits vowels and look-alikes, as upstream's generated names do.
const suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789"

const (
	suffixLength  = 5
	maxNameLength = 63
)

// Identifiers makes UIDs and the suffixes of generated names. Implementations are safe for concurrent use.
type Identifiers interface {
	// UID returns a new unique identifier for an object that is about to be created at key.
	UID(key ObjectKey) types.UID
	// Suffix returns five characters to append to base, the generateName of a new object. If the name is taken,
	// it is called again.
	Suffix(resource, namespace, base string) string
}

// Random returns unpredictable identifiers.
func Random() Identifiers { return random{} }

type random struct{}

func (random) UID(ObjectKey) types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	return uuid(b)
}

func (random) Suffix(string, string, string) string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return suffix(binary.LittleEndian.Uint64(b[:]))
}

// Seeded returns the same identifiers in every run with the same seed. Each depends on the seed, on the
// arguments and on how many were made for the same arguments before, not on the order in which unrelated
// objects are created concurrently.
func Seeded(seed uint64) Identifiers {
	return &seeded{seed: seed, counts: map[string]uint64{}}
}

type seeded struct {
	seed uint64

	mu     sync.Mutex
	counts map[string]uint64
}

func (s *seeded) UID(key ObjectKey) types.UID {
	sum := s.next("uid/" + key.Resource.String() + "/" + key.Namespace + "/" + key.Name)
	return uuid([16]byte(sum[:16]))
}

func (s *seeded) Suffix(resource, namespace, base string) string {
	sum := s.next("name/" + resource + "/" + namespace + "/" + base)
	return suffix(binary.LittleEndian.Uint64(sum[:8]))
}

func (s *seeded) next(what string) [sha256.Size]byte {
	s.mu.Lock()
	n := s.counts[what]
	s.counts[what] = n + 1
	s.mu.Unlock()
	return sha256.Sum256(fmt.Appendf(nil, "%d/%d/%s", s.seed, n, what))
}

// uuid sets the version and variant bits of RFC 9562, version 4.
func uuid(b [16]byte) types.UID {
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func suffix(n uint64) string {
	var b [suffixLength]byte
	for i := range b {
		b[i] = suffixAlphabet[n%uint64(len(suffixAlphabet))]
		n /= uint64(len(suffixAlphabet))
	}
	return string(b[:])
}

// generatedName joins base and suffix, truncating the base if the name would be too long.
func generatedName(base, suffix string) string {
	if len(base) > maxNameLength-suffixLength {
		base = base[:maxNameLength-suffixLength]
	}
	return base + suffix
}
