package plugins

import (
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/keelson-dev/keelson/cni"
)

// Result is what a plugin's output means.
func Result(output []byte) (cni.Result, error) {
	r, err := create.CreateFromBytes(output)
	if err != nil {
		return cni.Result{}, err
	}
	return resultOf(r)
}
