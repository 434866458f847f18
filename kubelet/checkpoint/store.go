package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// Errors of a Store. Test with errors.Is.
var (
	// ErrNotFound means that nothing was saved under the name.
	ErrNotFound = errors.New("no checkpoint")
	// ErrCorrupt means that the saved value cannot be read.
	ErrCorrupt = errors.New("corrupt checkpoint")
)

// version of the file format. It changes when an older reader would misunderstand a newer file.
const version = 1

// envelope is what a file contains.
type envelope struct {
	Version  int             `json:"version"`
	Checksum string          `json:"checksum"` // SHA-256 of Data, in hexadecimal
	Data     json.RawMessage `json:"data"`
}

// Store keeps values in the files of a directory, one per name. Make one with New.
type Store struct {
	dir   string
	mu    sync.Mutex
	swept bool
}

// New makes a Store in a directory, which is created on the first save.
func New(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("checkpoints need a directory")
	}
	return &Store{dir: filepath.Clean(dir)}, nil
}

// Save writes a value that encoding/json can encode. If it returns nil, Load returns that value from then on, even
// after a crash of the machine; if it fails, Load returns what it did before.
func (s *Store) Save(name string, value any) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	content, err := json.Marshal(envelope{Version: version, Checksum: checksum(data), Data: data})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	if !s.swept { // of temporary files that an earlier kubelet left when it was killed
		if err := atomicfile.Sweep(s.dir); err != nil {
			return fmt.Errorf("checkpoint %s: %w", name, err)
		}
		s.swept = true
	}
	if err := atomicfile.Write(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	return nil
}

// Load reads the value saved last into value, a pointer. It fails with ErrNotFound if nothing was saved, and with
// ErrCorrupt, after renaming the file, if it cannot be read. On failure value is unchanged, unless a value of another
// type was saved, parts of which it may then hold.
func (s *Store) Load(name string, value any) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	data, problem := open(content)
	if problem == nil {
		problem = json.Unmarshal(data, value)
	}
	if problem == nil {
		return nil
	}
	err = fmt.Errorf("%w: %s: %w", ErrCorrupt, path, problem)
	return errors.Join(err, os.Rename(path, path+".corrupt"))
}

// open returns the data in a file's content, if it is intact.
func open(content []byte) (json.RawMessage, error) {
	var e envelope
	if err := json.Unmarshal(content, &e); err != nil {
		return nil, err
	}
	switch {
	case e.Version != version:
		return nil, fmt.Errorf("it is of version %d, not %d", e.Version, version)
	case e.Checksum != checksum(e.Data):
		return nil, errors.New("its checksum is wrong")
	default:
		return e.Data, nil
	}
}

// Delete removes the value of a name. It succeeds if there is none.
func (s *Store) Delete(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = atomicfile.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	return nil
}

// path returns the file of a name.
func (s *Store) path(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "./\\\x00") {
		return "", fmt.Errorf("checkpoint %q: not a name", name)
	}
	return filepath.Join(s.dir, name+".json"), nil
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
