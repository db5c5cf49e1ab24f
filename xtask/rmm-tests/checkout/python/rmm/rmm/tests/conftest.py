"""What every test begins and ends with."""

import pytest

import rmm


@pytest.fixture(autouse=True)
def first_resource_again():
    yield
    rmm.reinitialize()


@pytest.fixture
def counted():
    """The current resource, with statistics."""
    resource = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    rmm.mr.set_current_device_resource(resource)
    return resource
