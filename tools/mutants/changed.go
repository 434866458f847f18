package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// changed returns the packages of the areas, in the repository at root, with files that differ from a commit, committed
// or not. Without a commit it uses the merge base with the main branch or, on the main branch, the previous commit.
func changed(ctx context.Context, root, commit string) ([]string, error) {
	if commit == "" {
		var err error
		if commit, err = base(ctx, root); err != nil {
			return nil, err
		}
	}
	diff, err := git(ctx, root, "diff", "--name-only", "--relative", commit, "--")
	if err != nil {
		return nil, err
	}
	added, err := git(ctx, root, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, name := range strings.Fields(diff + "\n" + added) {
		dir, _, _ := strings.Cut(path.Dir(name), "/testdata")
		area, _, _ := strings.Cut(dir, "/")
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		if slices.Contains(areas(), area) && len(files) > 0 {
			packages = append(packages, "./"+dir)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages), nil
}

func base(ctx context.Context, root string) (string, error) {
	head, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if common, err := git(ctx, root, "merge-base", "main", "HEAD"); err == nil && common != head {
		return common, nil
	}
	return git(ctx, root, "rev-parse", "HEAD~1")
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("git %s: %s: name a commit with -changed, or packages with -packages", strings.Join(args, " "), strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
