package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
)

// tree is what is checked out.
type tree struct {
	commit string
	dirty  *bool
}

// look returns what is checked out around the working directory.
func look() tree {
	t := tree{commit: "unknown"}
	root, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			t.commit = info.Main.Version
		}
		return t
	}
	if commit, err := git(root, "rev-parse", "--short=12", "HEAD"); err == nil {
		t.commit = commit
	}
	// Files that measurements write do not count, nor do untracked ones.
	changed, err := git(root, "status", "--porcelain", "--untracked-files=no", "--", ".",
		":(exclude)results", ":(exclude)README.md", ":(exclude)docs/proofs.md", ":(exclude)docs/results.md")
	if err == nil {
		dirty := changed != ""
		t.dirty = &dirty
	}
	return t
}

// Tree returns the commit that is checked out, and whether tracked files differ from it, as in Code.Dirty.
func Tree() (commit string, dirty *bool) {
	t := look()
	return t.commit, t.dirty
}

// git runs git in a directory and returns its output.
func git(dir string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	var said, complaint bytes.Buffer
	command.Stdout, command.Stderr = &said, &complaint
	if err := command.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("git %s: %w", strings.Join(args, " "), err), errors.New(strings.TrimSpace(complaint.String())))
	}
	return strings.TrimSpace(said.String()), nil
}
