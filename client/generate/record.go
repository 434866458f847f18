package generate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// ChangeCause is the annotation that kubectl rollout history shows as the cause of a revision.
const ChangeCause = "kubernetes.io/change-cause"

// Record writes into the objects the command that caused the change, as --record does. The command
// is shown to everyone who may read the objects: leave secrets out.
func Record(command string, objects ...runtime.Object) error {
	for _, obj := range objects {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("record the change cause: %w", err)
		}
		annotations := accessor.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ChangeCause] = command
		accessor.SetAnnotations(annotations)
	}
	return nil
}
