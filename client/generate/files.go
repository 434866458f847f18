package generate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Sources are the flags that fill a ConfigMap or a Secret.
type Sources struct {
	Literals []string // each "key=value"
	// Files are paths of files, each "key=path" or "path", with the base name as key; or of directories, whose regular
	// files are taken.
	Files []string
	// EnvFiles are paths of files with a line "KEY=value" for each key. They exclude the others.
	EnvFiles []string

	// FS is the file system of the paths; nil means the machine's own files, whatever the paths look like.
	FS fs.FS
	// Getenv is called for the keys without a value in an env file. If it is nil they are empty; kubectl's is
	// os.Getenv.
	Getenv func(string) string
}

// machine opens the machine's files. Unlike os.DirFS it accepts every path that the system does.
type machine struct{}

func (machine) Open(name string) (fs.File, error) { return os.Open(name) }

func filesOf(f fs.FS) fs.FS {
	if f == nil {
		return machine{}
	}
	return f
}

// sink takes what the sources hold. The kinds differ in how they name problems.
type sink struct {
	literal func(key, value string) error
	file    func(key string, data []byte) error
	kind    string // "config" or "secret"
}

func (s Sources) check() error {
	if len(s.EnvFiles) > 0 && (len(s.Files) > 0 || len(s.Literals) > 0) {
		return errors.New("from-env-file cannot be combined with from-file or from-literal")
	}
	return nil
}

func (s Sources) readLiterals(to sink) error {
	for _, text := range s.Literals {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			// The unreadable content may be a secret.
			return errors.New("invalid literal source, expected key=value")
		}
		if err := to.literal(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (s Sources) readFiles(to sink) error {
	files := filesOf(s.FS)
	for _, text := range s.Files {
		key, name, err := fileSource(text)
		if err != nil {
			return err
		}
		info, err := stat(files, name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if err := readFile(files, name, key, to); err != nil {
				return err
			}
			continue
		}
		if strings.Contains(text, "=") {
			return errors.New("cannot give a key name for a directory path")
		}
		entries, err := fs.ReadDir(files, name)
		if err != nil {
			return fmt.Errorf("error listing files in %s: %w", name, err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := readFile(files, filepath.Join(name, e.Name()), e.Name(), to); err != nil {
				return err
			}
		}
	}
	return nil
}

func readFile(files fs.FS, name, key string, to sink) error {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	return to.file(key, data)
}

func stat(files fs.FS, name string) (fs.FileInfo, error) {
	info, err := fs.Stat(files, name)
	if err == nil {
		return info, nil
	}
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		err = bad.Err
	}
	return nil, fmt.Errorf("error reading %s: %w", name, err)
}

// fileSource splits "key=path", or makes a key of the path.
func fileSource(text string) (key, name string, err error) {
	switch n := strings.Count(text, "="); {
	case n == 0:
		return path.Base(filepath.ToSlash(text)), text, nil
	case n > 1:
		return "", "", errors.New("key names or file paths cannot contain '='")
	}
	key, name, _ = strings.Cut(text, "=")
	switch {
	case key == "":
		return "", "", fmt.Errorf("key name for file path %v missing", name)
	case name == "":
		return "", "", fmt.Errorf("file path for key name %v missing", key)
	}
	return key, name, nil
}

func (s Sources) readEnvFiles(to sink) error {
	files := filesOf(s.FS)
	for _, name := range s.EnvFiles {
		info, err := stat(files, name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("env %s file cannot be a directory", to.kind)
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := s.readEnv(name, data, to); err != nil {
			return err
		}
	}
	return nil
}

func (s Sources) readEnv(name string, data []byte, to sink) error {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, max(len(data)+1, bufio.MaxScanTokenSize))
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if !utf8.Valid(line) {
			return fmt.Errorf("env file %s contains invalid utf8 bytes at line %d", name, n)
		}
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimLeftFunc(line, unicode.IsSpace)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, value, found := strings.Cut(string(line), "=")
		if problems := validation.IsEnvVarName(key); len(problems) > 0 {
			return fmt.Errorf("%q is not a valid key name: %s", key, strings.Join(problems, ";"))
		}
		if !found && s.Getenv != nil {
			value = s.Getenv(key)
		}
		if err := to.literal(key, value); err != nil {
			return err
		}
	}
	return lines.Err()
}
