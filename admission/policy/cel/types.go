package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// The types that expressions may evaluate to.
func aBool() []*cel.Type          { return []*cel.Type{cel.BoolType} }
func anything() []*cel.Type       { return []*cel.Type{cel.AnyType, cel.DynType} }
func aString() []*cel.Type        { return []*cel.Type{cel.StringType} }
func stringOrNull() []*cel.Type   { return []*cel.Type{cel.StringType, cel.NullType} }
func aConfiguration() []*cel.Type { return []*cel.Type{types.NewObjectType("Object")} }
func aPatch() []*cel.Type         { return []*cel.Type{cel.ListType(types.NewObjectType("JSONPatch"))} }
