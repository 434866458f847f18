package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Measured reports whether a file can change what is measured: tests cannot, unless they measure, nor can their data
// and the packages for tests, whose names end with "test".
func Measured(file string) bool {
	switch {
	case strings.Contains(file, "/testdata/"):
		return false
	case strings.HasPrefix(file, "bench/"):
		return true
	case strings.HasSuffix(file, "_test.go"):
		return false
	}
	return strings.HasPrefix(file, "internal/") || !strings.HasSuffix(path.Dir(file), "test")
}

// Changed returns, in order, the files below paths that differ between a commit and HEAD, among those for which counts
// returns true. Comments and pages of documentation are ignored. It fails if the commit is not in the history of HEAD.
func Changed(root, commit string, counts func(file string) bool, paths ...string) ([]string, error) {
	if _, err := git(root, "merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
		return nil, fmt.Errorf("commit %q is not in the history: %w", commit, err)
	}
	said, err := git(root, append([]string{"diff", "--name-only", "--no-renames", "-z", commit, "HEAD", "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(strings.Split(strings.TrimRight(said, "\x00"), "\x00"), func(file string) bool {
		return file == "" || strings.HasSuffix(file, ".md") || !counts(file)
	})
	same, err := sameCode(root, commit, files)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(file string) bool { return same[file] }), nil
}

// sameCode returns the Go files that differ from those of a commit only in comments.
func sameCode(root, commit string, files []string) (map[string]bool, error) {
	var ask bytes.Buffer
	var asked []string
	for _, file := range files {
		if strings.HasSuffix(file, ".go") && !strings.Contains(file, "\n") {
			fmt.Fprintf(&ask, "%s:%s\nHEAD:%s\n", commit, file, file)
			asked = append(asked, file)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	batch := exec.Command("git", "cat-file", "--batch")
	batch.Dir, batch.Stdin = root, &ask
	said, err := batch.Output()
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	same := map[string]bool{}
	r := bufio.NewReader(bytes.NewReader(said))
	for _, file := range asked {
		before, err := object(r)
		after, err2 := object(r)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("git cat-file of %s: %w", file, err)
		}
		same[file] = before != nil && after != nil && slices.Equal(code(before), code(after))
	}
	return same, nil
}

// object reads one object from git cat-file --batch; nil if it does not exist.
func object(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	if len(words) < 3 || words[len(words)-1] == "missing" {
		return nil, nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return nil, err
	}
	content := make([]byte, size+1) // with the newline after it
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	return content[:size], nil
}

// code returns what the compiler reads of a Go file: its tokens, and the comments that are directives.
func code(source []byte) []string {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	var all []string
	for {
		_, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON: // automatic or explicit
			all = append(all, ";")
		case tok != token.COMMENT:
			all = append(all, tok.String()+literal)
		case strings.HasPrefix(literal, "//go:"), strings.HasPrefix(literal, "//line "), strings.HasPrefix(literal, "//export "):
			all = append(all, literal)
		}
	}
}
