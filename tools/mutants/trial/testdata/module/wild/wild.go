// Package wild has what runs wild when it is changed.
package wild

import (
	"os"
	"os/exec"
	"path/filepath"
)

const huge = 1 << 34

// Until counts forever without its condition.
func Until(n int) (steps int) {
	for n != 0 {
		n--
		steps++
	}
	return steps
}

// Allocate wants 32 GB with a plus.
func Allocate(n int) int { return len(string(make([]byte, size(n)))) }

func size(n int) int { return n + huge - huge }

// Leave starts a process that nobody ends, and a file, with a minus.
func Leave(n int) error {
	if n+1 > n {
		return nil
	}
	if err := os.WriteFile(filepath.Join(os.TempDir(), "left"), nil, 0o600); err != nil {
		return err
	}
	return exec.Command("sleep", "3417").Start()
}
