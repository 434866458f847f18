package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/kubelet/logs"
)

// The last line of a container's log, as kubectl logs --tail=1 shows it.
func Example() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := filepath.Join(dir, "0.log")
	text := "2026-01-02T03:04:05Z stdout F hello\n2026-01-02T03:04:06Z stderr F wor\n2026-01-02T03:04:07Z stdout F world\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	last := int64(1)
	if err := logs.Read(context.Background(), log, logs.Options{Stdout: os.Stdout, Stderr: os.Stderr, Tail: &last}); err != nil {
		fmt.Println(err)
	}
	// Output: world
}
