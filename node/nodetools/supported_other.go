//go:build !linux

// Containers of Linux need its kernel.

package nodetools

import (
	"context"
	"fmt"
	"runtime"
)

// Supported says that containers need Linux.
func Supported(context.Context) error {
	return fmt.Errorf("%w: they need Linux, and this is %s", ErrUnsupported, runtime.GOOS)
}
