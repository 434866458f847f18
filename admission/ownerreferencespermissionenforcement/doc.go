// Package ownerreferencespermissionenforcement is upstream's admission plugin OwnerReferencesPermissionEnforcement. Whoever sets an
// owner reference on an object has it deleted with its owner, so that takes the right to delete the object. And who sets
// blockOwnerDeletion keeps the owner from going, so that takes the right to update the owner's finalizers.
//
// # Errors
//
// A missing right, and an owner of a kind that is not served, is an admission.ErrForbidden.
//
// A Plugin has no state of its own and is safe for concurrent use.
package ownerreferencespermissionenforcement
