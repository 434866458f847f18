//go:build !unix || solaris || illumos || aix

package disk

import (
	"errors"
	"os"
)

// Without a lock two processes would destroy each other's log, so such a platform is not supported.
func lock(*os.File) error { return errors.ErrUnsupported }
